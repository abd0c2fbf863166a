// Package warehouse holds only the test that runs every recipe of
// docs/warehouse.md, docs/postgres.md and docs/site-serve.md against files and tables of the real sinks,
// on every engine that is installed, and compares each result with the one that the page
// shows.
package warehouse
