// Package warehouse holds only the test that runs every recipe of
// docs/warehouse.md and docs/postgres.md against files and tables of the real sinks,
// on every engine that is installed, and compares each result with the answer counted
// from the exported data. This command writes the results that the pages show:
//
//	go test ./internal/dev/warehouse -run TestResults -update
package warehouse
