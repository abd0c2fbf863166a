package spool

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// now is an odd moment: nothing below may depend on full hours.
var now = time.Date(2026, 10, 5, 13, 37, 11, 123456000, time.UTC)

var key = analytics.Key{
	Project: "prj_a", Granularity: analytics.Day,
	Window: analytics.Window{From: analytics.NewDate(2026, 10, 1), To: analytics.NewDate(2026, 10, 2)},
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSpool(t testing.TB, dir string) *Spool {
	t.Helper()
	s, err := Open(dir)
	check(t, err)
	return s
}

// openSmall opens a spool that sorts page logs in runs of so many bytes.
func openSmall(t testing.TB, dir string, runBytes int64) *Spool {
	t.Helper()
	s := openSpool(t, dir)
	s.runBytes = runBytes
	return s
}

func begin(t testing.TB, s *Spool) *PageLog { return beginOf(t, s, analytics.VisitorsReport) }

func beginOf(t testing.TB, s *Spool, report analytics.Report) *PageLog {
	t.Helper()
	f, err := s.Begin(keyOf(report), 1, now, time.Time{})
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// page returns page number i, with n rows.
func page(i, n int) analytics.Page {
	p := analytics.Page{Offset: i * 250, HasMore: i%2 == 0, Totals: analytics.Totals{Human: int64(i), AI: 1 << 40,
		Total: -1}, Humans: analytics.Confirmed}
	for j := range n {
		path := fmt.Sprintf("/%d/%d é\x00", (i*7919+j*31)%1000, i)
		p.Rows = append(p.Rows, analytics.RecordOf(analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(i),
			AI:    int64(j),
			Total: 1 << 62}}))
	}
	return p
}

func keyOf(report analytics.Report) analytics.Key {
	k := key
	k.Report = report
	return k
}

// agentsOf is a page of agents with as many rows as p: two of each path, if it can.
func agentsOf(p analytics.Page) analytics.Page {
	a := analytics.Page{Offset: p.Offset, HasMore: p.HasMore, Humans: p.Humans}
	for i, name := range []string{"claude", "browser"} {
		a.Site = append(a.Site, analytics.RecordOf(analytics.AgentRow{Agent: name, Class: "c", Audience: analytics.AI,
			Found: true, Visitors: p.Totals.Human, Requests: int64(i) + 1<<40}))
	}
	for i, r := range p.Rows {
		a.Rows = append(a.Rows, analytics.RecordOf(analytics.AgentRow{Path: p.Rows[i-i%2].Path(), Agent: "x",
			Class: "coding", Audience: "neither", Found: i%2 == 0, Visitors: r.Counts[1], Requests: r.Counts[2]}))
	}
	return a
}

// like is p, or a page of agents like it for a log of agents.
func like(report analytics.Report, p analytics.Page) analytics.Page {
	if report == analytics.AgentsReport {
		return agentsOf(p)
	}
	return p
}

// appendTo appends p, or a page of agents like it.
func appendTo(l *PageLog, p analytics.Page) error {
	if l.shape.Site {
		p = agentsOf(p)
	}
	return l.Append(p)
}

// infoOf is what a log of the report says of p.
func infoOf(report analytics.Report, p analytics.Page) PageInfo {
	return InfoOf(report.Shape(), like(report, p))
}

// rowsAndWant returns the rows as they would be sealed, and as they must be.
func rowsAndWant(t testing.TB, l *PageLog, pages ...analytics.Page) (got, want any) {
	t.Helper()
	if !l.shape.Site {
		rows, _ := collect(t, l)
		return rows, sortedPages(pages...)
	}
	wanted, highest := []analytics.Record{}, -1
	var site []analytics.Record
	for _, p := range pages {
		a := agentsOf(p)
		wanted = append(wanted, a.Rows...)
		if p.Offset > highest {
			site, highest = a.Site, p.Offset
		}
	}
	wanted = append(wanted, site...)
	slices.SortStableFunc(wanted, l.shape.Compare)
	return all(t, l.all(context.Background(), false)), wanted
}

// collect returns the rows as they would be sealed, and how many were left out.
func collect(t testing.TB, l *PageLog) ([]analytics.Record, int) {
	t.Helper()
	l.Repeated = 0
	rows := all(t, l.sortedRows(context.Background()))
	return rows, l.Repeated
}

func all[R any](t testing.TB, rows iter.Seq2[R, error]) []R {
	t.Helper()
	out := []R{}
	for row, err := range rows {
		check(t, err)
		out = append(out, row)
	}
	return out
}

// sortedPages returns the rows of pages of visitors as they must be sealed.
func sortedPages(pages ...analytics.Page) []analytics.Record {
	out := []analytics.Record{}
	for _, p := range pages {
		out = append(out, p.Rows...)
	}
	slices.SortStableFunc(out, analytics.VisitorsReport.Shape().Compare)
	return out
}

// files lists the files below the spool.
func files(t testing.TB, dir string) []string {
	t.Helper()
	out := []string{}
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(filepath.Join(dir, "spool"), path)
			out = append(out, rel)
		}
		return err
	}))
	return out
}
