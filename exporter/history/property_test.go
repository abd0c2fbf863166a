package history_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/history"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// TestAnyArchive parses the output strictly, and compares every sample, and every
// time without a sample, with the definition: at t the newest window that ended by t.
func TestAnyArchive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShelf(t)
		first := analytics.Date(rapid.IntRange(-5, 40).Draw(t, "from"))
		o := history.Options{
			From:  first.Time(),
			To:    first.Time().Add(time.Duration(rapid.IntRange(0, 40*24*3600).Draw(t, "seconds")) * time.Second),
			Step:  time.Duration(rapid.IntRange(3600, 50*3600).Draw(t, "step")) * time.Second,
			Pages: rapid.IntRange(0, 3).Draw(t, "pages"),
		}
		var out bytes.Buffer
		summary, err := history.Write(t.Context(), &out, s, o)
		if err != nil {
			t.Fatal(err)
		}
		got := parse(t, out.String())
		samples := 0
		for _, each := range got {
			samples += len(each.samples)
			checkSteps(t, each, s, o)
		}
		if summary.Series != len(got) || summary.Samples != int64(samples) {
			t.Fatalf("summary %+v for %d series and %d samples", summary, len(got), samples)
		}
		compareWithModel(t, s, o, got)
		compareWithSamples(t, s, o, got, summary)
	})
}

// compareWithSamples: the samples equal the samples of the text, each series in order of time, and all of them in
// order but for an hour.
func compareWithSamples(t *rapid.T, s *shelf, o history.Options, want map[string]*series, wrote history.Counts) {
	got := map[string]*series{}
	newest := int64(math.MinInt64)
	summary, err := history.Samples(t.Context(), s, o, func(one exporter.Sample) error {
		labels := map[string]string{}
		for pair := range slices.Chunk(one.Labels, 2) {
			labels[pair[0]] = pair[1]
		}
		if one.Labels[0] != "__name__" || 2*len(labels) != len(one.Labels) || one.Help == "" {
			t.Fatalf("%+v: no name first, a label twice, or no help", one)
		}
		of := got[key(labels)]
		if of == nil {
			of = &series{name: key(labels), labels: labels, samples: map[int64]float64{}}
			got[key(labels)] = of
		}
		of.add(t, fmt.Sprint(int64(one.Value)), fmt.Sprint(one.At))
		if newest = max(newest, one.At); one.At <= newest-3600 {
			t.Fatalf("%+v: an hour after %d", one, newest)
		}
		return nil
	})
	if err != nil || summary != wrote || len(got) != len(want) {
		t.Fatalf("%+v and %d series, want %+v and %d: %v", summary, len(got), wrote, len(want), err)
	}
	for name, w := range want {
		if got[name] == nil || !maps.Equal(w.samples, got[name].samples) {
			t.Fatalf("%s: %v, want %v", name, got[name], w.samples)
		}
	}
}

// drawShelf makes calendars with holes. Rows depend on the window, so that the
// largest pages change.
func drawShelf(t *rapid.T) *shelf {
	s := &shelf{rows: func(k analytics.Key) iter.Seq2[analytics.Row, error] {
		var rows []analytics.Row
		for n := range int(k.To) % 5 {
			rows = append(rows, analytics.Row{Path: path((n + int(k.To)) % 7), Totals: analytics.Totals{Human: int64(n),
				AI:    int64(k.To),
				Total: int64(n * int(k.To) % 11)}})
		}
		slices.SortFunc(rows, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
		return rowsOf(rows...)
	}}
	for _, project := range []string{"a", "b", "agents"} {
		for g, days := range map[analytics.Granularity]analytics.Date{"day": 1, "week": 7, "3d": 3} {
			step := days
			if g == "3d" {
				step = 1 // rolling
			}
			for to := days; to < 40; to += step {
				if rapid.IntRange(0, 2).Draw(t, "hole") == 0 {
					continue
				}
				rev := reading(project, g, to-days, to)
				if project == "agents" {
					rev.Project, rev.Report = "a", analytics.AgentsReport
				}
				if rapid.IntRange(0, 9).Draw(t, "only") == 0 {
					rev.Rows = analytics.TotalsOnlyRows
				}
				s.windows = append(s.windows, rev)
			}
		}
	}
	s.windows = rapid.Permutation(s.windows).Draw(t, "order")
	return s
}

// checkSteps: between two samples lies a step, or less where a window begins; a
// series that every window has continues to the end.
func checkSteps(t *rapid.T, w *series, s *shelf, o history.Options) {
	begins := map[int64]bool{o.From.Unix(): true}
	for _, rev := range s.windows {
		begins[rev.To.Time().Unix()] = true
	}
	step := int64(o.Step / time.Second)
	for i, at := range w.times {
		if at < o.From.Unix() || at >= o.To.Unix() {
			t.Fatalf("%s: %d is outside %v", w.name, at, o)
		}
		if !begins[at] && (i == 0 || at-w.times[i-1] != step) {
			t.Fatalf("%s: %d is not one step after the previous sample, and no window begins there", w.name, at)
		}
		if i > 0 && w.everlasting() && at-w.times[i-1] > step {
			t.Fatalf("%s: no sample between %d and %d", w.name, w.times[i-1], at)
		}
	}
	if w.everlasting() && o.To.Unix()-w.times[len(w.times)-1] > step {
		t.Fatalf("%s: the last sample is at %d", w.name, w.times[len(w.times)-1])
	}
}

// everlasting says that a series never ends once it has begun.
func (w *series) everlasting() bool {
	name := w.labels["__name__"]
	return w.labels["path"] == "" && w.labels["agent"] == "" && name != "docgauge_pages" &&
		name != "docgauge_previous_site_visitors" && name != "docgauge_previous_site_visitors_deduplicated"
}

// compareWithModel looks at the times of all samples, and at the instants where
// windows begin to be shown: there each of their series has one.
func compareWithModel(t *rapid.T, s *shelf, o history.Options, got map[string]*series) {
	times := map[int64]bool{}
	if o.From.Before(o.To) {
		times[o.From.Unix()] = true
	}
	for _, w := range got {
		for _, at := range w.times {
			times[at] = true
		}
	}
	for _, rev := range s.windows {
		if at := rev.To.Time(); !at.Before(o.From) && at.Before(o.To) {
			times[at.Unix()] = true
		}
	}
	for at := range times {
		shown := model(s, o, at)
		for name, w := range got {
			if v, ok := w.samples[at]; ok && (shown[name] == nil || shown[name].value != v) {
				t.Fatalf("%s at %d is %v, must be %+v", name, at, v, shown[name])
			}
		}
		for name, must := range shown {
			if w := got[name]; must.begins && (w == nil || slices.Index(w.times, at) < 0) {
				t.Fatalf("%s has no sample at %d, where a window begins to be shown", name, at)
			}
		}
	}
}

// gauge is the value of the model at a time.
type gauge struct {
	value  float64
	begins bool // to be shown, at this time
}

// model returns the gauges at a time, by the definition.
func model(s *shelf, o history.Options, at int64) map[string]*gauge {
	newest := map[analytics.Key]analytics.Revision{}
	for _, rev := range s.windows {
		line := rev.Key
		line.Window = analytics.Window{}
		if rev.To.Time().Unix() <= at && (newest[line].Number == 0 || rev.To > newest[line].To) {
			newest[line] = rev
		}
	}
	shown := map[string]*gauge{}
	for _, rev := range newest {
		w := view.Window{Revision: rev}
		of := &view.Snapshot{Others: []view.RowsWindow{agentWindow(rev)}}
		if rev.Report == analytics.VisitorsReport && !rev.TotalsOnly() {
			w.Pages, _ = analytics.Top(s.rows(rev.Key), o.Pages)
		}
		for _, p := range s.windows {
			former := rev.Key
			if former.Window = rev.Granularity.ComparedWith(rev.Window); p.Key == former {
				w.Previous = &p.Totals
			}
		}
		if rev.Report == analytics.VisitorsReport {
			of = &view.Snapshot{Windows: []view.Window{w}}
		}
		begins := at == o.From.Unix() || at == rev.To.Time().Unix()
		for _, m := range exporter.WindowMetrics() {
			for values, value := range m.Series(of) {
				labels := map[string]string{"__name__": m.Name}
				for i, name := range m.Labels {
					labels[name] = values[i]
				}
				shown[key(labels)] = &gauge{value, begins}
			}
		}
	}
	return shown
}

// agentWindow returns the 40 agents with most readers, one after the other.
func agentWindow(rev analytics.Revision) view.RowsWindow {
	w := view.RowsWindow{Revision: rev}
	left := slices.DeleteFunc(agentsOf(rev.Key), func(a analytics.AgentRow) bool { return a.Path != "" })
	for ; len(left) > 0 && len(w.Rows) < 40; left = left[1:] {
		for i := range left {
			if left[i].Visitors > left[0].Visitors || left[i].Visitors == left[0].Visitors && left[i].Agent < left[0].Agent {
				left[0], left[i] = left[i], left[0]
			}
		}
		w.Rows = append(w.Rows, analytics.RecordOf(left[0]))
	}
	w.More = len(left)
	return w
}
