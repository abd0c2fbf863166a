package clickhouse

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestGrants runs an export and a collection as a user that has only the rights
// which docs/clickhouse.md names, on a database whose tables are made already.
func TestGrants(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin, err := engines.StartEngine26(dir)
	engines.Need(t, err)
	must(t, admin, "CREATE DATABASE docs")
	if err := open(t, admin.DSN("docs")).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := admin.Stop(); err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, grant := range documentedGrants(t) {
		flags = append(flags, "--grant="+grant)
	}
	least := start26(t, dir, flags...)
	s := open(t, least.DSN("docs"))
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for number, rows := range map[int32]int64{1: 30, 2: 10} {
		if err := s.Replace(t.Context(), seal(number, rows)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Collect(t.Context(), false); err != nil {
		t.Error(err)
	}
	if err := least.Stop(); err != nil {
		t.Fatal(err)
	}
	// Without the right to insert nothing can be written.
	var reading []string
	for _, f := range flags {
		reading = append(reading, strings.Replace(f, "SELECT, INSERT", "SELECT", 1))
	}
	refused(t, start26(t, dir, reading...).DSN("docs"), "lacks a right", "497", "INSERT")
}

func start26(t *testing.T, dir string, flags ...string) *engines.Engine26 {
	t.Helper()
	e, err := engines.StartEngine26(dir, flags...)
	engines.Need(t, err)
	t.Cleanup(func() { _ = e.Kill() })
	return e
}

// documentedGrants are the statements of the documentation, without the user.
func documentedGrants(t *testing.T) (grants []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/clickhouse.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "<!-- grants to export -->")
	part, _, _ = strings.Cut(part, "<!-- end -->")
	for _, m := range regexp.MustCompile(`(?m)^(GRANT .*) TO docgauge;$`).FindAllStringSubmatch(part, -1) {
		grants = append(grants, m[1])
	}
	if len(grants) < 3 {
		t.Fatalf("the documentation names %q", grants)
	}
	return grants
}
