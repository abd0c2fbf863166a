package warehouse

import (
	"cmp"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// The exporter ran every morning from firstRun to today. The newest windows are
// not settled yet.
var (
	firstRun  = analytics.NewDate(2026, 10, 30)
	withdrawn = analytics.NewDate(2026, 11, 1) // when the bot's visits were
	today     = analytics.NewDate(2026, 11, 3)
)

const settle = 3 // days

// window is one revision with its rows, sorted by path.
type window struct {
	analytics.Revision
	rows []analytics.Row
}

// history is all that was committed, in order; a window may come again.
type history []window

// shown is what a sink shows after h: the newest revision of each window,
// sorted by project, granularity and date.
func (h history) shown() []window {
	newest := map[analytics.Key]window{}
	for _, w := range h {
		newest[w.Key] = w
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b window) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Granularity, b.Granularity), cmp.Compare(a.From, b.From))
	})
}

// exported asks the sandbox for everything that was due each morning.
func exported(t *testing.T) (h history) {
	t.Helper()
	dir, now := t.TempDir(), today.Time()
	s, err := sandbox.New(sandbox.Config{Projects: projects, DataDir: dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for day := firstRun; day <= today; day++ {
		now = day.Time().Add(6*time.Hour + 17*time.Minute)
		if err := os.WriteFile(filepath.Join(dir, sandbox.EventLogName), eventLog(day < withdrawn), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys() {
			if number := due(key, day); number > 0 {
				h = append(h, read(t, s, key, number, now))
			}
		}
	}
	return append(h, h[len(h)-1]) // the answer to the last commit was lost: it came twice
}

// due returns the number of the revision of key that is read on day, 0 if none:
// one when it is over, one more when it can no longer change.
func due(key analytics.Key, day analytics.Date) int32 {
	first := max(key.To, firstRun)
	switch {
	case day == first:
		return 1
	case day == key.To+settle && day > first:
		return 2
	}
	return 0
}

// keys lists the complete windows of each project: days, weeks, a month, and
// two rolling windows.
func keys() (all []analytics.Key) {
	firstMonday := lastWeek - 3*7
	for _, project := range projects {
		add := func(g analytics.Granularity, from, to analytics.Date) {
			all = append(all, analytics.Key{Project: project, Granularity: g, Window: analytics.Window{From: from, To: to}})
		}
		for day := firstMonday; day <= lastDay; day++ {
			add(analytics.Day, day, day+1)
		}
		for week := firstMonday; week <= lastWeek; week += 7 {
			add(analytics.Week, week, week+7)
		}
		add(analytics.Month, firstDay, lastDay)
		add("28d", lastDay-28, lastDay)
		add("28d", lastDay-27, lastDay+1)
	}
	return all
}

// read is a complete reading of one window, of totals only where it rolls.
func read(t *testing.T, s *sandbox.Sandbox, key analytics.Key, number int32, now time.Time) window {
	t.Helper()
	totals, rows, err := s.Visitors(key.Project, key.Window)
	if err != nil {
		t.Fatal(err)
	}
	w := window{Revision: analytics.Revision{
		Key: key, Number: number, Totals: totals, Rows: int64(len(rows)),
		Settled: key.To+settle <= analytics.DateOf(now), Verified: true, ExportedAt: now,
	}}
	if key.Granularity.RollingDays() > 0 {
		w.Revision.Rows = analytics.TotalsOnlyRows
		return w
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return cmp.Compare(a.Path, b.Path) })
	w.rows = rows
	return w
}

// into commits h to a sink.
func (h history) into(t *testing.T, sink sinks.Sink) {
	t.Helper()
	for _, w := range h {
		sealed := sinktest.Seal(t, w.Revision, each(w.rows))
		if err := sink.Replace(t.Context(), sealed); err != nil {
			t.Fatal(err)
		}
	}
}

func each(rows []analytics.Row) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
