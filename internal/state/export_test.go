package state

import "testing"

const FirstSchema = firstSchema

// Migrate makes this binary one that was built with further migrations.
func Migrate(t *testing.T, scripts ...string) {
	former := migrations
	migrations = scripts
	t.Cleanup(func() { migrations = former })
}
