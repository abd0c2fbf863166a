package postgres

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var documentedBlock = regexp.MustCompile("(?s)<!-- executed: TestDocumentedSetup -->\n```sql\n(.*?)```")

// TestDocumentedSetup runs the blocks of docs/postgres.md except recipes and
// grants to export, in their order: the first as a superuser, the others as the user that
// it makes, or as the superuser where only that one may.
func TestDocumentedSetup(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/postgres.md")
	check(t, err)
	blocks := documentedBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	e := engines.RunPostgres(t, debian)
	run := func(c client, block string) {
		for statement := range strings.SplitSeq(strings.TrimSpace(block), ";\n") {
			c.must(strings.TrimSuffix(statement, ";"))
		}
	}
	run(connect(t, e.DSN("postgres")), blocks[0][1])
	dsn := strings.Replace(e.DSN("docs"), "postgres:"+e.Password, "docgauge:choose-one", 1)
	s, r := open(t, dsn), reader{connect(t, dsn)}
	shows(t, s, r, seal(1, 10))
	run(connect(t, e.DSN("docs")), blocks[1][1]) // makes a user
	reading := reader{connect(t, strings.Replace(e.DSN("docs"), "postgres:"+e.Password, "analyst:choose-another", 1))}
	if got := reading.shown(seal(1, 0).Rev.Key); got != 1 {
		t.Errorf("the analyst sees revision %d", got)
	}
	r.must(blocks[2][1])
	old := windowOf(-3000, 1, 10)
	shows(t, s, r, old)
	r.must(blocks[3][1])
	if r.shown(old.Rev.Key) != 0 || r.shown(seal(1, 0).Rev.Key) != 1 {
		t.Error("the deletion deletes other windows")
	}
}
