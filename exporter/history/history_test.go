package history_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter/history"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

var (
	update = flag.Bool("update", false, "write the golden files anew")
	must   = engines.Must
)

// oddPath needs every escape that the format has.
const oddPath = "/\"quoted\"\\\nsecond line \u2028😀"

// someWindows has a gap of a day, totals alone, a window that begins to be shown
// before the samples do, and one that never is.
func someWindows() *shelf {
	only := reading("prj_b", "28d", date("2026-09-03"), date("2026-10-01"))
	only.Rows = analytics.TotalsOnlyRows
	return &shelf{
		windows: []analytics.Revision{
			reading("prj_b", "day", date("2026-10-04"), date("2026-10-05")),
			reading("prj_b", "day", date("2026-10-01"), date("2026-10-02")),
			only,
			reading("prj_a", "week", date("2026-09-21"), date("2026-09-28")),
			reading("prj_a", "week", date("2026-09-14"), date("2026-09-21")),
			reading("prj_b", "day", date("2026-10-02"), date("2026-10-03")),
			reading("prj_b", "day", date("2026-09-25"), date("2026-09-26")), // the same weekday
		},
		rows: func(k analytics.Key) iter.Seq2[analytics.Row, error] {
			return rowsOf(
				analytics.Row{Path: "/a", Totals: analytics.Totals{Human: 1, AI: 2, Total: 3}},
				analytics.Row{Path: "/b", Totals: analytics.Totals{Human: 1, AI: 2, Total: 3}},
				analytics.Row{Path: "/few", Totals: analytics.Totals{Human: 1, AI: 1, Total: 1}},
				analytics.Row{Path: oddPath, Totals: analytics.Totals{Human: int64(k.To), Total: int64(k.To)}},
				analytics.Row{Path: "/late", Totals: analytics.Totals{Total: 100 * int64(k.From-date("2026-10-01"))}},
			)
		},
	}
}

func TestText(t *testing.T) {
	o := between("2026-10-01", "2026-10-05", 20*time.Hour)
	o.Pages = 2
	o.Labels = []string{"job", `the "job"`}
	s := someWindows()
	agents := reading("prj_b", "day", date("2026-10-03"), date("2026-10-04"))
	agents.Report = analytics.AgentsReport
	s.windows = append(s.windows, agents)
	var got bytes.Buffer
	summary, err := history.Write(t.Context(), &got, s, o)
	must(t, err)
	const golden = "testdata/history.om"
	if *update {
		must(t, os.WriteFile(golden, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	lines := int64(strings.Count(got.String(), "\ndocgauge_"))
	if want := (history.Counts{Windows: 6, Series: 53, Samples: lines}); summary != want {
		t.Errorf("summary %+v, want %+v", summary, want)
	}
}

func TestWant(t *testing.T) {
	o := between("2026-10-01", "2026-10-05", time.Hour)
	o.Want = func(k analytics.Key) bool { return k.Granularity == "week" }
	text := written(t, someWindows(), o)
	if !strings.Contains(text, `window="week"`) || strings.Contains(text, `"day"`) {
		t.Error(text)
	}
	if text := written(t, someWindows(), between("2026-01-01", "2026-02-01", time.Hour)); text != "# EOF\n" {
		t.Error(text)
	}
}

// written returns the history as text.
func written(t *testing.T, s *shelf, o history.Options) string {
	t.Helper()
	var got bytes.Buffer
	if _, err := history.Write(t.Context(), &got, s, o); err != nil {
		t.Fatal(err)
	}
	return got.String()
}

// TestLaterReading: totals and pages come from one reading, though the window was read again between the list and
// the rows, and so do the totals of the day a week before another.
func TestLaterReading(t *testing.T) {
	first := reading("prj_a", "day", date("2026-10-01"), date("2026-10-02"))
	second := first
	second.Number, second.Totals.Total = 2, 77
	s := &shelf{
		windows: []analytics.Revision{reading("prj_a", "day", date("2026-10-08"), date("2026-10-09")), first},
		later:   map[analytics.Key]analytics.Revision{first.Key: second},
		rows: func(analytics.Key) iter.Seq2[analytics.Row, error] {
			return rowsOf(analytics.Row{Path: "/", Totals: analytics.Totals{Total: 70}})
		},
	}
	o := between("2026-10-01", "2026-10-10", 24*time.Hour)
	o.Pages = 1
	got := written(t, s, o)
	for _, want := range []string{
		`docgauge_site_visitors_deduplicated{project="prj_a",window="day"} 77 `,
		`docgauge_previous_site_visitors_deduplicated{project="prj_a",window="day"} 77 `, `path="/"} 70 `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if n := s.open.Load(); n != 0 {
		t.Errorf("the use of %d windows has not ended", n)
	}
}

func TestDamageIsFoundBeforeTheFirstByte(t *testing.T) {
	first, second := errors.New("file one: damaged"), errors.New("file two: damaged")
	s := someWindows()
	s.damaged = []error{first, second}
	expectNothing(t, s, between("2026-10-01", "2026-10-05", time.Hour), "file one", "file two")

	s = someWindows()
	s.windows[0].Number, s.windows[1].Number = gone, gone
	o := between("2026-10-01", "2026-10-06", time.Hour)
	o.Pages = 1
	expectNothing(t, s, o, "prj_b day [2026-10-04,2026-10-05): is gone", "prj_b day [2026-10-01,2026-10-02): is gone")

	s = someWindows()
	s.rows = func(analytics.Key) iter.Seq2[analytics.Row, error] {
		return func(yield func(analytics.Row, error) bool) { yield(analytics.Row{}, first) }
	}
	expectNothing(t, s, o, "prj_a week [2026-09-21,2026-09-28): file one")
	if n := s.open.Load(); n != 0 {
		t.Errorf("the use of %d windows has not ended", n)
	}
}

func expectNothing(t *testing.T, s *shelf, o history.Options, want ...string) {
	t.Helper()
	var got bytes.Buffer
	_, err := history.Write(t.Context(), &got, s, o)
	for _, want := range want {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if got.Len() > 0 {
		t.Errorf("wrote %q", got.String())
	}
}

func TestStep(t *testing.T) {
	for _, step := range []time.Duration{0, -time.Hour, time.Millisecond, time.Minute + time.Microsecond} {
		expectNothing(t, someWindows(), between("2026-10-01", "2026-10-05", step), "whole seconds")
	}
}

// full takes so many bytes and then no more.
type full struct {
	room int
	took bytes.Buffer
}

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	f.took.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestNoEndAfterAnError(t *testing.T) {
	o := between("2026-10-01", "2026-10-05", time.Minute)
	whole := len(written(t, someWindows(), o))
	for _, room := range []int{0, 1, whole / 2, whole - 1} {
		out := full{room: room}
		if _, err := history.Write(t.Context(), &out, someWindows(), o); !errors.Is(err, errFull) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
		if strings.HasSuffix(out.took.String(), "# EOF\n") {
			t.Errorf("with room for %d bytes the text still ends", room)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	stopping := writerFunc(func(p []byte) (int, error) { cancel(); return out.Write(p) })
	_, err := history.Write(ctx, stopping, someWindows(), between("2026-10-01", "2026-10-05", time.Second))
	if !errors.Is(err, context.Canceled) || strings.Contains(out.String(), "# EOF") {
		t.Errorf("%v after %d bytes", err, out.Len())
	}
	if _, err := history.Write(ctx, io.Discard, someWindows(),
		between("2026-10-01", "2026-10-05", time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestParseLabels(t *testing.T) {
	got, err := history.ParseLabels([]string{"job=docgauge", "instance=a=b", "_x="})
	if diff := cmp.Diff([]string{"job", "docgauge", "instance", "a=b", "_x", ""}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range [][]string{{"job"}, {"=x"}, {"1a=x"}, {"a-b=x"}, {"__name__=x"}, {"path=x"}, {"project=x"},
		{"a=1", "a=2"}, {"a\n=x"}} {
		if got, err := history.ParseLabels(bad); err == nil {
			t.Errorf("ParseLabels(%q) = %q, want an error", bad, got)
		}
	}
}
