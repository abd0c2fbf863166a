package archive

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

func agentSample() analytics.Revision {
	rev := sample()
	rev.Report, rev.Totals = analytics.AgentsReport, analytics.Totals{}
	return rev
}

// agentTraffic are the rows of two agents on a site of n pages.
func agentTraffic(n int) (rows []analytics.AgentRow) {
	for _, path := range append([]string{""}, slices.Sorted(func(yield func(string) bool) {
		for i := range n {
			if !yield(fmt.Sprintf("/p%05d", i)) {
				return
			}
		}
	})...) {
		rows = append(rows,
			analytics.AgentRow{Path: path, Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Found: true,
				Visitors: 3, Requests: 4},
			analytics.AgentRow{Path: path, Agent: "curl", Class: "tool", Audience: "neither", Found: true,
				Visitors: 2, Requests: 2})
	}
	return rows
}

func TestAgentsWrittenAreRead(t *testing.T) {
	dir := t.TempDir()
	texts, counts := rapid.StringN(0, 9, 30), rapid.Int64()
	row := rapid.Custom(func(t *rapid.T) analytics.AgentRow {
		r := analytics.AgentRow{Path: texts.Draw(t, "path"), Agent: texts.Draw(t, "agent"),
			Class: texts.Draw(t, "class"), Audience: analytics.Audience(texts.Draw(t, "audience")),
			Found: rapid.Bool().Draw(t, "found"), Visitors: counts.Draw(t, "visitors"), Requests: counts.Draw(t, "requests")}
		r.Found = r.Found || r.Path == ""
		return r
	})
	key := func(r analytics.AgentRow) [4]string {
		return [4]string{r.Path, r.Agent, string(r.Audience), fmt.Sprint(r.Found)}
	}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfDistinct(row, key).Draw(t, "rows")
		slices.SortFunc(rows, analytics.AgentRow.Compare)
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		wrote, err := Write(path, agentSample(), analytics.Records(yields(rows...)))
		check(t, err)
		got, gotRows, err := reread[analytics.AgentRow](path)
		check(t, err)
		if diff := cmp.Diff(wrote, got); diff != "" {
			t.Errorf("Write returned (-) and Open reads (+):\n%s", diff)
		}
		if diff := cmp.Diff(rows, gotRows); len(rows) > 0 && diff != "" {
			t.Errorf("rows (-wrote +read):\n%s", diff)
		}
		withPath := slices.DeleteFunc(slices.Clone(rows), func(r analytics.AgentRow) bool { return r.Path == "" })
		if got.Rows != int64(len(withPath)) || got.Report != analytics.AgentsReport {
			t.Errorf("%+v for %d rows with a path", got, len(withPath))
		}
		data, err := os.ReadFile(path)
		check(t, err)
		foot, sum, err := inspected(data)
		if err != nil || sum.Rows != got.Rows || foot.SiteRows != int64(len(rows)-len(withPath)) ||
			foot.Checksum != sum.Checksum.String() {
			t.Errorf("inspected: %+v, %+v, %v", foot, sum, err)
		}
		foot.Table = "" // the columns tell
		if again, err := ParseMetadata(foot.Metadata()); err != nil || again != foot {
			t.Errorf("metadata: %+v, want %+v: %v", again, foot, err)
		}
	})
}

// TestAgentsLayout: the columns are the columns of SPEC 18, and long files have several row groups.
func TestAgentsLayout(t *testing.T) {
	want := agentTraffic(groupRows)
	path, _ := written(t, agentSample(), yields(want...))
	r := footer(t, path)
	var names []string
	for i := range r.MetaData().Schema.NumColumns() {
		names = append(names, r.MetaData().Schema.Column(i).Name())
	}
	const columns = "project granularity window_start window_end path agent class audience found visitors requests " +
		"markdown bytes revision settled verified exported_at"
	if got := strings.Join(names, " "); got != columns || r.NumRowGroups() < 3 {
		t.Errorf("columns %s, %d row groups", got, r.NumRowGroups())
	}
	if kv := r.MetaData().KeyValueMetadata(); *kv.FindValue("docgauge.report") != "agents" ||
		*kv.FindValue("docgauge.site_rows") != "2" || kv.FindValue("docgauge.totals_human") != nil {
		t.Errorf("metadata %v %v", kv.Keys(), kv.Values())
	}
	if _, got, err := reread[analytics.AgentRow](path); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d rows of %d: %v", len(got), len(want), err)
	}
}

// TestAgentsTotalsOnly: a file of the site's rows alone stands for a window of which only totals were read.
func TestAgentsTotalsOnly(t *testing.T) {
	dir, rev := t.TempDir(), agentSample()
	rev.Rows = analytics.TotalsOnlyRows
	want := agentTraffic(0)
	path := filepath.Join(dir, "only")
	if wrote, err := Write(path, rev, analytics.Records(yields(want...))); err != nil || !wrote.TotalsOnly() {
		t.Fatalf("%+v, %v", wrote, err)
	}
	if got, rows, err := reread[analytics.AgentRow](path); err != nil || !got.TotalsOnly() || !slices.Equal(rows, want) {
		t.Errorf("%+v, %v, %v", got, rows, err)
	}
}

// TestBadAgents: what cannot be a file of agents is an error, and leaves none.
func TestBadAgents(t *testing.T) {
	dir := t.TempDir()
	type row = analytics.AgentRow
	one := row{Path: "/a", Agent: "b", Class: "other", Audience: "neither", Found: true, Visitors: 1, Requests: 1}
	with := func(change func(r *row)) []row {
		r := one
		change(&r)
		return []row{r}
	}
	only := agentSample()
	only.Rows = analytics.TotalsOnlyRows
	for want, c := range map[string]struct {
		rev  analytics.Revision
		rows []row
	}{
		"comes twice":           {agentSample(), append([]row{one}, with(func(r *row) { r.Class = "x" })...)},
		"must be sorted":        {agentSample(), append([]row{one}, with(func(r *row) { r.Found = false })...)},
		"agent \"\\xff\"":       {agentSample(), with(func(r *row) { r.Agent = "\xff" })},
		"not found":             {agentSample(), with(func(r *row) { r.Path, r.Found = "", false })},
		"only totals were read": {only, []row{one}},
	} {
		path := filepath.Join(dir, "w")
		_, err := Write(path, c.rev, analytics.Records(yields(c.rows...)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a file is left", want)
		}
	}
	// A footer that claims other rows than there are.
	var out bytes.Buffer
	foot := Footer{Revision: agentSample(), SiteRows: 1}
	foot.Rows = 1
	err := write(&out, rowsSchema(foot.Report.Shape()), func(w *file.Writer) error {
		enc := newEncoder(w, foot.Report.Shape(), foot.Revision)
		for _, r := range agentTraffic(0) {
			if err := enc.add(analytics.RecordOf(r), new(Footer)); err != nil {
				return err
			}
		}
		if err := enc.group.flush(w, enc.before, enc.after); err != nil {
			return err
		}
		return writeMetadata(w, foot)
	})
	check(t, err)
	if _, _, err := inspected(out.Bytes()); err == nil || !strings.Contains(err.Error(), "with a path") {
		t.Errorf("a footer that counts site rows as others: %v", err)
	}
}
