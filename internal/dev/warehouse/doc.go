// Package warehouse holds only the test that runs every recipe of
// docs/warehouse.md against files and tables of the real sinks, on every engine
// that is installed, and compares each result with the answer counted from the
// exported data. This command writes the results that the page shows:
//
//	go test ./internal/dev/warehouse -run TestResults -update
package warehouse
