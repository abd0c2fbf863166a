package page

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

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

// dueReasons explain why a window can be due.
var dueReasons = map[string]string{
	"missing":    "not read yet",
	"settle":     "read before it settled; it can no longer change",
	"unverified": "its numbers changed while they were read",
}

func backlogOf(s *view.Snapshot) backlog {
	b := backlog{Finish: htmlview.MomentOf(s.Finish, s.At)}
	for _, d := range s.Due {
		if d.Count == 0 {
			continue
		}
		b.Total += d.Count
		b.Rows = append(b.Rows, due{s.ProjectName(d.Project), htmlview.Title(d.Granularity), d.Reason, dueReasons[d.Reason], format.Commas(d.Count)})
	}
	b.Count, b.Text = format.Commas(b.Total), format.Plural(b.Total, "window")
	var waits []string
	if n := len(s.Asides); n > 0 {
		waits = append(waits, format.Plural(n, "window")+" skipped")
	}
	rowsLater := 0
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			for _, c := range g.Cells {
				if !c.RowsFrom.IsZero() {
					rowsLater++
				}
			}
		}
	}
	if rowsLater > 0 {
		waits = append(waits, format.Plural(rowsLater, "window")+" whose rows are read later")
	}
	if len(waits) > 0 {
		b.Waits = "Not counted: " + strings.Join(waits, ", ") + "."
	}
	return b
}

// budget is a request budget. Bar is the share that is left, of 100.
type budget struct {
	Name, Remaining, Limit string
	Reading                bool // of all projects
	Unlimited              bool
	Bar                    int
	Next                   htmlview.Moment // none: now
}

func budgets(s *view.Snapshot) (out []budget) {
	for _, b := range s.Budgets {
		v := budget{
			Name: "Reading", Remaining: format.Commas(b.Available), Limit: format.Commas(b.Limit),
			Reading: b.Project == "", Unlimited: b.Limit <= 0,
		}
		switch {
		case b.Project == "":
		case len(s.Projects) > 1:
			v.Name = "Agent jobs, " + s.ProjectName(b.Project)
		default:
			v.Name = "Agent jobs"
		}
		if !v.Unlimited {
			v.Bar = min(max(b.Available*100/b.Limit, 0), 100)
		}
		if b.Next.After(s.At) {
			v.Next = htmlview.MomentOf(b.Next, s.At)
		}
		out = append(out, v)
	}
	return out
}

// run is one export run. Outcome is that of the snapshot.
type run struct {
	Outcome                 string
	Words                   htmlview.Outcome
	Started                 htmlview.Moment
	Took, Windows, Requests string
	Message                 string
}

func runs(s *view.Snapshot) (out []run) {
	for _, r := range s.Runs[:min(len(s.Runs), maxRuns)] {
		v := run{
			Outcome: r.Outcome, Words: htmlview.OutcomeOf(r), Started: htmlview.MomentOf(r.Started, s.At),
			Windows: format.Commas(r.Windows), Requests: format.Commas(r.Requests), Message: r.Message,
		}
		if !r.Finished.IsZero() {
			v.Took = htmlview.Took(r.Finished.Sub(r.Started))
		}
		out = append(out, v)
	}
	return out
}

type sink struct {
	Name, Location, Waiting string
	Owes                    bool
	LastCommit              htmlview.Moment
	Problem                 string
}

func sinks(s *view.Snapshot) (out []sink) {
	for _, k := range s.Sinks {
		out = append(out, sink{
			Name: k.Name, Location: k.Location, Waiting: format.Commas(k.Waiting), Owes: k.Waiting > 0,
			LastCommit: htmlview.MomentOf(k.LastCommit, s.At), Problem: k.Problem,
		})
	}
	return out
}

// key is an API key. Concern is what is wrong with it, or soon will be.
type key struct {
	Name, Expires, ISO, Left, Concern string
	Rejected                          bool
}

const (
	day        = 24 * time.Hour
	expirySoon = 7 * day
)

func keys(s *view.Snapshot) (out []key) {
	for _, k := range s.Keys {
		v := key{Name: k.Name, Rejected: k.Rejected}
		left := k.Expires.Sub(s.At)
		if !k.Expires.IsZero() {
			v.Expires, v.ISO = k.Expires.UTC().Format(time.DateOnly), k.Expires.UTC().Format(time.RFC3339)
			switch {
			case left <= 0:
				v.Left = "expired"
			case left < day:
				v.Left = "less than a day left"
			default:
				v.Left = format.Plural(int(left/day), "day") + " left"
			}
		}
		switch {
		case k.Rejected:
			v.Concern = "rejected by the service (401 or 403): replace it"
		case v.Expires != "" && left <= 0:
			v.Concern = fmt.Sprintf("expired on %s: replace it", v.Expires)
		case v.Expires != "" && left < expirySoon:
			v.Concern = fmt.Sprintf("expires on %s, %s", v.Expires, v.Left)
		}
		out = append(out, v)
	}
	return out
}

// queue is the prompt queue and its agent jobs.
type queue struct {
	Text   string // 2 pending, 1 active
	Paused string // why; empty: it is not
	Jobs   htmlview.JobTable
}

func queueOf(s *view.Snapshot) *queue {
	if s.Queue == nil {
		return nil
	}
	// Prompts of all projects are counted together, by state.
	var states []string
	sums := map[string]int{}
	for _, p := range s.Queue.Prompts {
		if p.Count > 0 && sums[p.State] == 0 {
			states = append(states, p.State)
		}
		sums[p.State] += p.Count
	}
	for i, state := range states {
		states[i] = format.Commas(sums[state]) + " " + state
	}
	name := s.ProjectName
	if len(s.Projects) < 2 {
		name = nil
	}
	return &queue{
		Text:   cmp.Or(strings.Join(states, ", "), "No prompts"),
		Paused: htmlview.Paused(*s.Queue), Jobs: htmlview.JobTableOf(*s.Queue, name, s.At, maxJobs),
	}
}
