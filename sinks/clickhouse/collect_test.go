package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
)

// TestDue compares due with its documentation.
func TestDue(t *testing.T) {
	key := windowOf(0, 1, 0).Rev.Key
	zero := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		hour := func() time.Time { return zero.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "hour")) * time.Hour) }
		var all []sinks.Superseded
		var commits []commit
		for id := uint64(1); id <= 6; id++ {
			if rapid.Bool().Draw(t, "has rows") {
				all = append(all, sinks.Superseded{Key: key, Attempt: id, Since: hour()})
			}
			if rapid.Bool().Draw(t, "committed") {
				commits = append(commits, commit{id, hour()})
			}
		}
		if len(commits) > 0 { // the server leaves the newest out
			all = slices.DeleteFunc(all, func(a sinks.Superseded) bool {
				return a.Attempt == commits[len(commits)-1].attempt
			})
		}
		before := hour()
		var want []uint64
		for _, a := range all {
			since := a.Since
			next := slices.IndexFunc(commits, func(c commit) bool { return c.attempt > a.Attempt })
			if slices.ContainsFunc(commits, func(c commit) bool { return c.attempt == a.Attempt }) && next >= 0 &&
				commits[next].committed.After(since) {
				since = commits[next].committed
			}
			if since.Before(before) {
				want = append(want, a.Attempt)
			}
		}
		var got []uint64
		for _, a := range due(slices.Clone(all), map[analytics.Key][]commit{key: commits}, before) {
			got = append(got, a.Attempt)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("due %v, want %v", got, want)
		}
	})
}

// put inserts an attempt by hand: its rows, written so many hours ago, and a marker of that age unless it is
// negative. Two rows of agents belong to the site.
func put(t *testing.T, e engine, d *dataset, name string, day int, attempt uint64, rows, written, committed int) {
	t.Helper()
	from := windowOf(day, 1, 0).Rev.From
	head := fmt.Sprintf("'prj_a', 'day', toDate('%s'), toDate('%s'), toUInt64(%d)", from, from+1, attempt)
	path, others := "concat('/p', toString(number))", 1
	marker := fmt.Sprintf("toInt64(1), toInt64(1), toInt64(1), 'claimed', toInt64(%d)", rows)
	if d.Site {
		path, others = "if(number < 2, '', "+path+")", int(attempt)+rows-2
		marker = fmt.Sprintf("'claimed', toInt64(%d)", rows-2)
	}
	columns := []string{path}
	for _, name := range d.Names(analytics.Text) {
		columns = append(columns, fmt.Sprintf("concat('%s', toString(number))", name))
	}
	for range d.Names(analytics.Truth) {
		columns = append(columns, "toUInt8(1)")
	}
	for i := range d.Names(analytics.Count) {
		columns = append(columns, fmt.Sprintf("toInt64(%d)", []int{int(attempt), others}[min(i, 1)]))
	}
	row := strings.Join(columns, ", ")
	rev := fmt.Sprintf("toInt32(%d), toUInt8(1), toUInt8(1), toInt64(1)", attempt)
	must(t, e, fmt.Sprintf("INSERT INTO %s.%s (%s, written_at) SELECT %s, %s, %s, now() - %d FROM system.numbers "+
		"LIMIT %d", name, d.rows, names(d.rowColumns()), head, row, rev, written*3600, rows))
	if committed >= 0 {
		must(t, e, fmt.Sprintf("INSERT INTO %s.%s (%s, committed_at) SELECT %s, %s, %s, now() - %d", name, d.markers,
			names(d.markerColumns()), head, marker, rev, committed*3600))
	}
}

// TestCollect has attempts of every kind, and concurrent readers.
func TestCollect(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		for _, d := range datasets {
			t.Run(d.report.String(), func(t *testing.T) { t.Parallel(); collects(t, e, d) })
		}
	})
}

func collects(t *testing.T, e engine, d *dataset) {
	name := database(t, e)
	s, r := open(t, e.DSN(name), d.report), newReader(t, e.DSN(name))
	check(t, s.Check(t.Context()))
	put := func(day int, attempt uint64, rows, written, committed int) {
		put(t, e, d, name, day, attempt, rows, written, committed)
	}
	put(0, 1, 30, 90, 89) // superseded 50 h ago: due
	put(0, 2, 40, 60, -1) // never committed, 60 h old: due
	put(0, 3, 50, 51, 50) // superseded 2 h ago
	put(0, 4, 60, 3, 2)   // shown
	put(0, 5, 70, 1, -1)  // being written
	put(1, 6, 80, 90, 89) // shown since long
	want := []uint64{1, 2}
	dry, err := s.Collect(t.Context(), true)
	if err != nil || !slices.Equal(ids(dry), want) {
		t.Fatalf("Collect, dry run = %v, %v; want %v", ids(dry), err, want)
	}
	ctx, stop := context.WithCancel(t.Context())
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for ctx.Err() == nil {
			a := r.shown(windowOf(0, 1, 0).For(d.report).Rev.Key)
			if b := r.shown(windowOf(1, 1, 0).For(d.report).Rev.Key); a != 4 || b != 6 {
				t.Errorf("a reader sees the attempts %d and %d", a, b)
			}
		}
	}()
	done, err := s.Collect(t.Context(), false)
	stop()
	<-looked
	if err != nil || cmp.Diff(dry, done) != "" || done[0].Report != d.report {
		t.Errorf("Collect = %v, %v; dry run said %v", done, err, dry)
	}
	left := must(t, e, "SELECT groupArray(a) FROM (SELECT DISTINCT attempt AS a FROM "+name+"."+d.rows+
		" ORDER BY a)")
	if strings.TrimSpace(left) != "[3,4,5,6]" {
		t.Errorf("rows are left of %s", left)
	}
	if markers := must(t, e, "SELECT count() FROM "+name+"."+d.markers); strings.TrimSpace(markers) != "4" {
		t.Errorf("%s markers are left", markers)
	}
	if again, err := s.Collect(t.Context(), false); err != nil || len(again) != 0 {
		t.Errorf("Collect again = %v, %v", again, err)
	}
}

func ids(all []sinks.Superseded) (out []uint64) {
	for _, a := range all {
		out = append(out, a.Attempt)
	}
	return out
}

// TestCollectMany needs several statements.
func TestCollectMany(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		name := database(t, e)
		s := open(t, e.DSN(name))
		replace(t, s, windowOf(0, 1, 10))
		const many = 2*atOnce + 100
		from := windowOf(1, 1, 0).Rev.From
		must(t, e, fmt.Sprintf("INSERT INTO %s.%s (%s, written_at) SELECT 'prj_a', 'day', toDate('%s'), "+
			"toDate('%s'), toUInt64(number + 1), '/p', toInt64(1), toInt64(1), toInt64(1), toInt32(1), toUInt8(1), "+
			"toUInt8(1), toInt64(1), now() - 200000 FROM system.numbers LIMIT %d",
			name, visitors.rows, names(visitors.rowColumns()), from, from+1, many))
		done, err := s.Collect(t.Context(), false)
		if err != nil || len(done) != many {
			t.Errorf("Collect = %d, %v", len(done), err)
		}
		if left := must(t, e, "SELECT count() FROM "+name+"."+visitors.rows); strings.TrimSpace(left) != "10" {
			t.Errorf("%s rows are left", left)
		}
	})
}

// TestTimeZones has servers that are elsewhere: dates, stamps and ages stay.
func TestTimeZones(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"America/New_York", "Asia/Kolkata"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			server := engines.RunClickHouse(t, engines.WithConfig("<timezone>"+zone+"</timezone>"))
			if got := must(t, server, "SELECT timezone()"); strings.TrimSpace(got) != zone {
				t.Fatalf("the server is in %s", got)
			}
			collects(t, server, visitors)
			s, r := newSink(t, server)
			w := windowOf(0, 1, 10)
			replace(t, s, w)
			totals, err := r.Totals(w.Rev.Key)
			if diff := cmp.Diff([]analytics.Revision{w.Rev}, totals); err != nil || diff != "" {
				t.Errorf("totals %v:\n%s", err, diff)
			}
			for rev, err := range s.Revisions(t.Context()) {
				if diff := cmp.Diff(w.Rev, rev); err != nil || diff != "" {
					t.Errorf("Revisions %v:\n%s", err, diff)
				}
			}
		})
	}
}
