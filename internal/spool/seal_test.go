package spool

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

var errStopped = errors.New("stopped")

func revisionOf(k analytics.Key, number int32) analytics.Revision {
	return analytics.Revision{
		Key: k, Number: number, Verified: true, ExportedAt: now,
		Totals: analytics.Totals{Human: 7, AI: 5, Total: 11},
	}
}

func content(t *testing.T, f *archive.File) string {
	t.Helper()
	in, err := f.Open()
	check(t, err)
	defer in.Close()
	data, err := io.ReadAll(in)
	check(t, err)
	return string(data)
}

// TestSeal: the window file can be made again from the log, in memory or on disk, in one part or
// in many, and is the same each time. Only the log is left of both.
func TestSeal(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	f := begin(t, s)
	pages := []analytics.Page{page(0, 250), page(2, 5)}
	for i := range 60 {
		pages = append(pages, page(3+i, 250))
	}
	for _, p := range pages[:2] {
		check(t, f.Append(p))
	}
	small, err := f.Seal(t.Context(), revisionOf(key, 1))
	check(t, err)
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("files while the window is in memory: %v", got)
	}
	check(t, f.Close())
	f = begin(t, s) // after a crash
	again, err := f.Seal(t.Context(), revisionOf(key, 1))
	check(t, err)
	if d := cmp.Diff(content(t, small), content(t, again)); d != "" {
		t.Errorf("the files differ:\n%s", d)
	}
	for _, p := range pages[2:] {
		check(t, f.Append(p))
	}
	want := revisionOf(key, 1)
	want.Rows = 61*250 + 5
	var whole string
	for _, part := range []int64{runBytes, 100_000} {
		s.runBytes = part
		w, err := f.Seal(t.Context(), revisionOf(key, 1))
		check(t, err)
		if d := cmp.Diff(want, w.Revision()); d != "" {
			t.Errorf("revision (-want +got):\n%s", d)
		}
		if d := cmp.Diff(sortedPages(pages...), all(t, w.Rows())); d != "" {
			t.Errorf("rows (-want +got):\n%s", d)
		}
		if got := content(t, w); whole != "" && got != whole {
			t.Error("in parts, another file is made")
		} else {
			whole = got
		}
		check(t, w.Remove())
		ended, stop := context.WithCancelCause(t.Context())
		stop(errStopped)
		if _, err := f.Seal(ended, revisionOf(key, 1)); !errors.Is(err, errStopped) || errors.Is(err, ErrDamaged) {
			t.Errorf("sealed in parts of %d bytes after a stop: %v", part, err)
		}
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("files: %v", got)
	}
	check(t, f.Discard())
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files after Discard: %v", got)
	}
}

// TestSealAgents: as for visitors. The rows of the site come from the page at the highest offset; of one path
// there are many rows, which are the same only with the same agent, audience and found. Both reports of a
// window are in the spool at once, and their logs are shared each for itself.
func TestSealAgents(t *testing.T) {
	s := openSpool(t, t.TempDir())
	beside := begin(t, s)
	check(t, beside.Append(page(0, 3)))
	f := beginOf(t, s, analytics.AgentsReport)
	var pages []analytics.Page
	for i := range 62 {
		pages = append(pages, page(61-i, 250))
		check(t, appendTo(f, pages[i]))
	}
	check(t, f.Close())
	f = beginOf(t, s, analytics.AgentsReport) // after a crash
	rev := revisionOf(keyOf(analytics.AgentsReport), 1)
	rev.Totals = analytics.Totals{}
	_, rows := rowsAndWant(t, f, pages...)
	for _, part := range []int64{runBytes, 100_000} {
		s.runBytes = part
		w, err := f.Seal(t.Context(), rev)
		check(t, err)
		if d := cmp.Diff(rows, any(all(t, w.Rows()))); d != "" || w.Revision().Rows != 62*250 {
			t.Errorf("%d rows (-want +got):\n%s", w.Revision().Rows, d)
		}
		check(t, w.Remove())
	}
	rev.Rows = 62 * 250
	if has, err := f.has(rev); err != nil || !has {
		t.Errorf("has it: %v, %v", has, err)
	}
	if rows, _ := collect(t, beside); len(rows) != 3 {
		t.Errorf("%d rows of visitors beside it", len(rows))
	}
	again := agentsOf(page(62, 2))
	again.Rows[1] = agentsOf(pages[0]).Rows[1]
	check(t, f.Append(again))
	if _, err := f.Seal(t.Context(), rev); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a row twice: %v", err)
	}
	// Totals alone, read or shared.
	week := keyOf(analytics.AgentsReport)
	week.Granularity, rev.Rows = analytics.Week, analytics.TotalsOnlyRows
	rev.Humans = analytics.Confirmed
	check(t, s.Share(f, rev, week, 1, true))
	shared, err := s.Begin(week, 1, now, time.Time{})
	check(t, err)
	defer shared.Close()
	if got := shared.Pages[0]; got.Humans != rev.Humans {
		t.Errorf("shared %+v", got)
	}
	for _, l := range []*PageLog{f, shared} {
		w, err := l.Seal(t.Context(), rev)
		check(t, err)
		got, want := all(t, w.Rows()), agentsOf(page(62, 2)).Site
		slices.SortFunc(want, f.shape.Compare)
		if d := cmp.Diff(want, got); d != "" || l == shared && l.Requests() != 0 {
			t.Errorf("%d requests; rows (-want +got):\n%s", l.Requests(), d)
		}
		check(t, w.Remove())
	}
}

// TestRowsAgainstAMap: sorted in parts of a few rows, each path comes once, with the counts that
// were appended last.
func TestRowsAgainstAMap(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		f, err := openSmall(t, dir, rapid.Int64Range(20, 2000).Draw(rt, "part")).Begin(key, 1, now, time.Time{})
		check(t, err)
		defer func() { check(t, f.Discard()) }()
		last := map[string]analytics.Record{}
		appended := 0
		for i, rows := range rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawRow), 0, 30), 0, 12).Draw(rt, "pages") {
			check(t, f.Append(analytics.Page{Offset: i, Rows: rows}))
			for _, row := range rows {
				last[row.Path()] = row
				appended++
			}
		}
		want := []analytics.Record{}
		for _, row := range last {
			want = append(want, row)
		}
		slices.SortFunc(want, f.shape.Compare)
		for range 2 { // it can be read again
			got, repeated := collect(t, f)
			if d := cmp.Diff(want, got); d != "" || repeated != appended-len(want) {
				rt.Fatalf("%d repeated, want %d; rows (-want +got):\n%s", repeated, appended-len(want), d)
			}
		}
		for range f.sortedRows(t.Context()) { // a reader may stop
			break
		}
	})
}

func drawRow(t *rapid.T) analytics.Record {
	return analytics.RecordOf(analytics.Row{
		Path: rapid.StringN(0, 3, 8).Draw(t, "path"),
		Totals: analytics.Totals{Human: rapid.Int64().Draw(t, "human"), AI: rapid.Int64().Draw(t, "ai"),
			Total: rapid.Int64().Draw(t, "total")},
	})
}

// TestRunsFail: no row is missing without an error, even where only the last page needs the disk, and a stop ends
// the merge too.
func TestRunsFail(t *testing.T) {
	s := openSmall(t, t.TempDir(), 200_000)
	f := begin(t, s)
	for i := range 61 {
		check(t, f.Append(page(i, 250)))
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var last error
	for _, err := range f.sortedRows(ctx) {
		stop(errStopped)
		last = err
	}
	if !errors.Is(last, errStopped) {
		t.Errorf("stopped during the merge: %v", last)
	}
	check(t, f.Restart(now))
	check(t, f.Append(page(0, 250)))
	s.runBytes = 5_000
	check(t, os.Remove(s.tmp))
	if _, err := f.Seal(t.Context(), revisionOf(key, 1)); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
		t.Errorf("without a place for runs: %v", err)
	}
}

// TestSealEndsWithContext: sealing a large window does not delay the stop of a process.
func TestSealEndsWithContext(t *testing.T) {
	s := openSpool(t, t.TempDir())
	f := begin(t, s)
	check(t, f.Append(page(0, 20)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Seal(ctx, revisionOf(key, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if w, err := f.Seal(t.Context(), revisionOf(key, 1)); err != nil || w.Revision().Rows != 20 {
		t.Errorf("then: %v", err)
	}
}

func TestSealTotalsOnly(t *testing.T) {
	f := begin(t, openSpool(t, t.TempDir()))
	check(t, f.Append(page(0, 0)))
	rev := revisionOf(key, 1)
	rev.Rows = analytics.TotalsOnlyRows
	w, err := f.Seal(t.Context(), rev)
	check(t, err)
	if d := cmp.Diff(rev, w.Revision()); d != "" {
		t.Errorf("revision (-want +got):\n%s", d)
	}
}

func TestSealDuplicates(t *testing.T) {
	for name, rows := range map[string]int{"in memory": 3, "on disk": 20_000} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := begin(t, openSpool(t, dir))
			first, second := page(0, 3), analytics.Page{Offset: 250}
			for i := range rows {
				second.Rows = append(second.Rows, analytics.RecordOf(analytics.Row{Path: strings.Repeat("x",
					i%20) + string(rune('a'+i%26)) + time.Duration(i).String()}))
			}
			second.Rows[1] = first.Rows[2]
			second.Rows[1].Counts[0] = 4711
			check(t, f.Append(first))
			check(t, f.Append(second))
			rev := revisionOf(key, 1)
			if _, err := f.Seal(t.Context(), rev); !errors.Is(err, ErrDuplicate) ||
				!strings.Contains(err.Error(), key.String()) {
				t.Errorf("got %v, want ErrDuplicate", err)
			}
			if got := files(t, dir); len(got) != 1 || !strings.HasPrefix(got[0], "fetching/") {
				t.Errorf("files after ErrDuplicate: %v", got)
			}
			rev.Verified = false
			w, err := f.Seal(t.Context(), rev)
			check(t, err)
			found := 0
			for _, row := range all(t, w.Rows()) {
				if row.Path() == second.Rows[1].Path() && row.Counts[0] == 4711 {
					found++
				}
			}
			if w.Revision().Rows != int64(rows)+2 || found != 1 || f.Repeated != 1 {
				t.Errorf("%d rows, %d repeated, the last appended comes %d times", w.Revision().Rows, f.Repeated, found)
			}
			check(t, w.Remove())
		})
	}
}

// TestDamagedAfterAppend: data that the disk lost after it was appended is an error, not a
// smaller window.
func TestDamagedAfterAppend(t *testing.T) {
	for name, damage := range map[string]func(path string){
		"one bit flipped": func(path string) { flip(t, path) },
		"cut":             func(path string) { check(t, os.Truncate(path, 200)) },
	} {
		f := begin(t, openSpool(t, t.TempDir()))
		check(t, f.Append(page(0, 20)))
		check(t, f.Append(page(1, 20)))
		damage(f.path)
		if _, err := f.Seal(t.Context(), revisionOf(key, 1)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// flip changes one bit in the middle of a file.
func flip(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	data[len(data)/2] ^= 4
	check(t, os.WriteFile(path, data, 0o600))
}
