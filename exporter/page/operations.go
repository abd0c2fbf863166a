package page

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/htmlview"
)

// maxRuns bounds the table of runs.
const maxRuns = 20

// backlog is what is due.
type backlog struct {
	Total  int
	Count  string
	Text   string // 12 windows
	Waits  string // what is not counted; empty: nothing
	Finish htmlview.Moment
	Rows   []due
}

type due struct{ Project, Window, Reason, Why, Count string }

// whys explain the reasons a window can be due for.
var whys = map[string]string{
	"missing":    "not read yet",
	"settle":     "read before it settled, and can no longer change",
	"unverified": "its numbers changed while they were read",
}

func backlogOf(s *exporter.Snapshot) backlog {
	b := backlog{Finish: htmlview.MomentOf(s.Finish, s.At)}
	for _, d := range s.Due {
		if d.Count == 0 {
			continue
		}
		b.Total += d.Count
		b.Rows = append(b.Rows, due{d.Project, htmlview.Title(d.Granularity), d.Reason, whys[d.Reason], htmlview.Commas(d.Count)})
	}
	b.Count, b.Text = htmlview.Commas(b.Total), htmlview.Plural(b.Total, "window")
	var waits []string
	if n := len(s.Asides); n > 0 {
		waits = append(waits, htmlview.Plural(n, "window")+" set aside")
	}
	if n := rowsLater(s); n > 0 {
		waits = append(waits, htmlview.Plural(n, "window")+" of which the rows are read later")
	}
	if len(waits) > 0 {
		b.Waits = "Not counted: " + strings.Join(waits, ", ") + "."
	}
	return b
}

// rowsLater counts the windows that wait for their rows.
func rowsLater(s *exporter.Snapshot) (n int) {
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			for _, c := range g.Cells {
				if !c.RowsFrom.IsZero() {
					n++
				}
			}
		}
	}
	return n
}

// budget is a request budget. Bar is the share that is left, of 100.
type budget struct {
	Name, Remaining, Limit string
	Unlimited              bool
	Bar                    int
	Next                   htmlview.Moment // none: now
}

func budgets(s *exporter.Snapshot) (out []budget) {
	for _, b := range s.Budgets {
		v := budget{Name: b.Name, Remaining: htmlview.Commas(b.Remaining), Limit: htmlview.Commas(b.Limit), Unlimited: b.Limit <= 0}
		if !v.Unlimited {
			v.Bar = min(max(b.Remaining*100/b.Limit, 0), 100)
		}
		if b.Next.After(s.At) {
			v.Next = htmlview.MomentOf(b.Next, s.At)
		}
		out = append(out, v)
	}
	return out
}

// run is one run. Outcome is that of the snapshot, Word what the page says.
type run struct {
	Outcome, Word, Tone       string
	Started                   htmlview.Moment
	Took, Windows, Requests   string
	WindowsText, RequestsText string
	Message                   string
}

func runs(s *exporter.Snapshot) (out []run) {
	for _, r := range s.Runs[:min(len(s.Runs), maxRuns)] {
		v := run{
			Outcome: r.Outcome, Word: cmp.Or(r.Outcome, "running, or killed"), Tone: tones[r.Outcome],
			Started: htmlview.MomentOf(r.Started, s.At),
			Windows: htmlview.Commas(r.Windows), Requests: htmlview.Commas(r.Requests),
			WindowsText: htmlview.Plural(r.Windows, "window"), RequestsText: htmlview.Plural(r.Requests, "request"),
			Message: r.Message,
		}
		if !r.Finished.IsZero() {
			v.Took = htmlview.Took(r.Finished.Sub(r.Started))
		}
		out = append(out, v)
	}
	return out
}

var tones = map[string]string{"success": "ok", "failed": "bad", "": "wait", "deferred": "wait", "interrupted": "wait"}

type sink struct {
	Name, Location, Waiting string
	Owes                    bool
	LastCommit              htmlview.Moment
	Problem                 string
}

func sinks(s *exporter.Snapshot) (out []sink) {
	for _, k := range s.Sinks {
		out = append(out, sink{
			Name: k.Name, Location: k.Location, Waiting: htmlview.Commas(k.Waiting), Owes: k.Waiting > 0,
			LastCommit: htmlview.MomentOf(k.LastCommit, s.At), Problem: k.Problem,
		})
	}
	return out
}

// key is an API key. Concern is what is wrong with it, or soon will be.
type key struct {
	Name, Expires, ISO, Left, Concern string
}

const (
	day        = 24 * time.Hour
	expirySoon = 7 * day
)

func keys(s *exporter.Snapshot) (out []key) {
	for _, k := range s.Keys {
		v := key{Name: k.Name}
		left := k.Expires.Sub(s.At)
		if !k.Expires.IsZero() {
			v.Expires, v.ISO = k.Expires.UTC().Format(time.DateOnly), k.Expires.UTC().Format(time.RFC3339)
			v.Left = daysLeft(left)
		}
		switch {
		case k.Rejected:
			v.Concern = "refused by the service (401 or 403): replace it"
		case v.Expires != "" && left <= 0:
			v.Concern = fmt.Sprintf("expired on %s: replace it", v.Expires)
		case v.Expires != "" && left < expirySoon:
			v.Concern = fmt.Sprintf("expires on %s, %s", v.Expires, v.Left)
		}
		out = append(out, v)
	}
	return out
}

func daysLeft(d time.Duration) string {
	switch {
	case d <= 0:
		return "expired"
	case d < day:
		return "less than a day left"
	default:
		return htmlview.Plural(int(d/day), "day") + " left"
	}
}
