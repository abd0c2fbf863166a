package docsapi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

// oneAgentsPage is a whole answer with two rows.
const oneAgentsPage = `{"totals":[` +
	`{"agent":"curl","class":"tool","audience":"neither","visitors":2,"requests":5,"markdown":4,"bytes":70},` +
	`{"agent":"curl","class":"tool","audience":"ai","visitors":1,"requests":1,"markdown":0,"bytes":-1}],"agents":[` +
	`{"path":"/a","agent":"curl","class":"tool","audience":"neither","found":true,"visitors":1,"requests":3,` +
	`"markdown":0,"bytes":-1},` +
	`{"path":"/b","agent":"curl","class":"tool","audience":"ai","found":false,"visitors":1,"requests":1,` +
	`"markdown":0,"bytes":-1}],"hasMore":true}`

var oneAgentsPageWant = analytics.Page{
	Site: recordsOf(
		analytics.AgentRow{Agent: "curl", Class: "tool", Audience: "neither", Found: true, Visitors: 2, Requests: 5,
			Markdown: 4, Bytes: 70},
		analytics.AgentRow{Agent: "curl", Class: "tool", Audience: "ai", Found: true, Visitors: 1, Requests: 1, Bytes: -1},
	),
	Rows: recordsOf(
		analytics.AgentRow{Path: "/a", Agent: "curl", Class: "tool", Audience: "neither", Found: true, Visitors: 1,
			Requests: 3, Bytes: -1},
		analytics.AgentRow{Path: "/b", Agent: "curl", Class: "tool", Audience: "ai", Visitors: 1, Requests: 1, Bytes: -1},
	),
	HasMore: true,
}

func TestDecodeAgentsPage(t *testing.T) {
	odd := oneAgentsPageWant
	odd.Rows = slices.Clone(odd.Rows)
	odd.Rows[0].Texts[0], odd.Rows[0].Texts[1] = "/é\n", "c\"url"
	for name, tc := range map[string]struct {
		body string
		want analytics.Page
	}{
		"plain": {oneAgentsPage, oneAgentsPageWant},
		"unknown fields": {strings.ReplaceAll(oneAgentsPage, `"agent":`, `"x":[{"agent":7}],"human":-1,"agent":`),
			oneAgentsPageWant},
		"escapes": {strings.Replace(oneAgentsPage, `"path":"/a","agent":"curl"`,
			`"p\u0061th":"/\u00e9\n","agent":"c\"url"`, 1), odd},
		"no row": {`{"hasMore":false,"agents":[],"totals":[]}`, analytics.Page{Rows: []analytics.Record{}}},
	} {
		got, err := decode([]byte(tc.body), maxLimit, analytics.AgentsReport.Shape())
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// TestDecodeAgentsPageRefuses: every wrong member is named, of a page that is one nevertheless.
func TestDecodeAgentsPageRefuses(t *testing.T) {
	swap := func(old, replacement string) string { return strings.Replace(oneAgentsPage, old, replacement, 1) }
	for name, tc := range map[string]struct{ body, says string }{
		"empty path":       {swap(`"/a"`, `""`), "/agents/0, before byte"},
		"path missing":     {swap(`"path":"/a",`, ``), "missing: path"},
		"found missing":    {swap(`"found":true,`, ``), "missing: found"},
		"found a text":     {swap(`"found":true`, `"found":"true"`), "want true or false"},
		"requests missing": {swap(`,"requests":5`, ``), "/totals/0, before byte 100: missing: requests"},
		"fewer than none":  {swap(`"markdown":4`, `"markdown":-1`), "want an integer from 0 to"},
		"fewer bytes":      {swap(`"bytes":70`, `"bytes":-2`), "want an integer from -1 to"},
		"half a reader":    {swap(`"visitors":2`, `"visitors":2.5`), "want an integer"},
		"other audience":   {swap(`"audience":"neither"`, `"audience":"total"`), "want human, ai or neither"},
		"no name":          {swap(`"agent":"curl"`, `"agent":""`), "want 1 to 200 bytes"},
		"name no text":     {swap(`"agent":"curl"`, `"agent":7`), "want a string"},
		"a NUL in a name":  {swap(`"class":"tool"`, `"class":"a\u0000b"`), "want no NUL"},
		"long name":        {swap(`"class":"tool"`, `"class":"`+strings.Repeat("x", 201)+`"`), "want 1 to 200 bytes"},
		"very long name":   {swap(`"class":"tool"`, `"class":"`+strings.Repeat("x", 2000)+`"`), "a name over 200 bytes"},
		"an agent twice":   {swap(`"audience":"ai"`, `"audience":"neither"`), `"neither" and found true comes twice`},
		"totals of before": {swap(`"totals":[`, `"totals":{"human":1},"x":[`), "/totals, before byte"},
		"another report":   {onePage, "/totals, before byte 11: want an array"},
		"rows are missing": {swap(`"agents"`, `"visitors"`), "missing: agents"},
	} {
		_, err := decode([]byte(tc.body), maxLimit, analytics.AgentsReport.Shape())
		if !errors.Is(err, errShape) || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %s", name, err, tc.says)
		}
	}
	// Also an answer of this API, but not of visitors.
	if _, err := decode([]byte(oneAgentsPage), maxLimit, analytics.VisitorsReport.Shape()); !errors.Is(err, ErrMalformed) {
		t.Errorf("agents as visitors: %v", err)
	}
}
