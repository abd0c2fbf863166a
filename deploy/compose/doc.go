// Package compose holds compose.yaml against what it refers to, without a
// container engine: it is loaded by the loader of the compose specification,
// searched for references that lead nowhere and ports that are open to others,
// and docgauge is run with the environments of its services, with ClickHouse as
// the file configures it.
//
// It has no code of its own. It pulls no image and starts no container.
package compose
