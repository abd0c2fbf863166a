package clickhouse

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestGrants runs an export and a collection as a user that has only the rights which docs/clickhouse.md names, on
// tables that a user with the rights to create them has made.
func TestGrants(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin, err := engines.StartEngine26(dir)
	engines.Need(t, err)
	must(t, admin, "CREATE DATABASE docs")
	check(t, admin.Stop())
	const page = "../../docs/clickhouse.md"
	grants := sinktest.DocumentedGrants(t, page, `(?m)^(GRANT .*) TO docgauge;$`)
	text, err := os.ReadFile(page)
	check(t, err)
	create := regexp.MustCompile(`(?m)^(GRANT CREATE .*) TO docgauge;$`).FindStringSubmatch(string(text))
	maker := start26(t, dir, append(slices.Clone(grants), create[1])...)
	check(t, open(t, maker.DSN("docs"), analytics.Reports...).Check(t.Context()))
	check(t, maker.Stop())
	least := start26(t, dir, grants...)
	s := open(t, least.DSN("docs"), analytics.Reports...)
	check(t, s.Check(t.Context()))
	for number, rows := range map[int32]int64{1: 30, 2: 10} {
		for _, report := range analytics.Reports {
			replace(t, s, seal(number, rows).For(report))
		}
	}
	if _, err := s.Collect(t.Context(), false); err != nil {
		t.Error(err)
	}
	check(t, least.Stop())
	// Without the right to insert nothing can be written.
	var reading []string
	for _, f := range grants {
		reading = append(reading, strings.Replace(f, "SELECT, INSERT", "SELECT", 1))
	}
	refused(t, start26(t, dir, reading...).DSN("docs"), "lacks a right", "497", "INSERT")
}

func start26(t *testing.T, dir string, grants ...string) *engines.Engine26 {
	t.Helper()
	e, err := engines.StartEngine26(dir, grants...)
	engines.Need(t, err)
	t.Cleanup(func() { _ = e.Kill() })
	return e
}
