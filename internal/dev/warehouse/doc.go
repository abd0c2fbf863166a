// Package warehouse only holds the test that runs every recipe of
// docs/warehouse.md: against files and tables that the real sinks wrote, on
// every engine that can be had, comparing each result with the answer counted
// from what was exported. The results that the page shows are written by
//
//	go test ./internal/dev/warehouse -run TestResults -update
package warehouse
