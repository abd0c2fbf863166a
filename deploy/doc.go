// Package deploy tests what this directory ships: the container image, the compose
// file, the Helm chart, the systemd units, and the rules for Prometheus and
// Alertmanager. It has no code but tests.
//
// They check each file with its own tool (helm, promtool, amtool, systemd-analyze,
// the loader of the compose specification), follow every reference from one file
// to another, and run docgauge as the file would: with its environment, user,
// volumes and read-only root.
//
// No test builds an image, starts a container engine, a cluster or systemd.
package deploy
