package htmlview

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// PageTable is the most read pages of a window. The template "pagetable" shows it.
type PageTable struct {
	Title       string
	Note        string // beside the title
	First, More []PageRow
	Compared    bool // rows have a change
}

// PageRow is one page. Bar is its share of the most read page, of 100.
type PageRow struct {
	Path, Title, Human, AI, Total string
	Before, Change, Growth, Tone  string // against an earlier window; Growth is in per cent
	Bar                           int64
}

// PageRowOf describes a page with t readers, beside one that has most.
func PageRowOf(path string, t analytics.Totals, most int64) PageRow {
	return PageRow{
		Path: format.Cut(path, MaxName), Title: format.Cut(path, MaxMessage),
		Human: format.Commas(t.Human), AI: format.Commas(t.AI), Total: format.Commas(t.Total), Bar: min(t.Total*100/max(most, 1), 100),
	}
}

// Add appends a row, unfolded if it is one of the first n.
func (t *PageTable) Add(r PageRow, n int) {
	if len(t.First) < n {
		t.First = append(t.First, r)
	} else {
		t.More = append(t.More, r)
	}
}

// JobTable is agent jobs: those that wait to become some, then the newest first. The
// template "jobtable" shows it.
type JobTable struct {
	Rows    []JobRow
	Several bool   // projects
	More    string // how many are not shown; empty: none
}

// JobRow is an agent job. Link is an address that may be followed, empty if there is
// none; LinkText is what to show for it. Review is where the pull request stands and Cost
// what the job costs; each is empty where that is not known.
type JobRow struct {
	Name, Prompt, Project, Reason string
	State, Tone, Took             string
	Begun                         Moment
	Link, LinkText, Review, Cost  string
}

var jobTones = map[string]string{
	"completed": "ok", "active": "wait", "submitting": "wait", "pending": "wait", "held": "wait", "archived": "wait",
	"failed": "bad", "rejected": "bad", "unknown": "bad", "lost": "bad", "invalid": "bad",
}

// JobState is the word for where a job stands, and its tone: ok, wait, bad or none. An
// ended job of the service stands where its result says, or its state where result is
// empty.
func JobState(state, result string) (word, tone string) {
	switch result {
	case "no_pr":
		return "completed without a pull request", "wait"
	case "pr":
		state = "completed"
	case "":
	default:
		state = result
	}
	return state, jobTones[state]
}

// JobTableOf shows at most n jobs. Name returns what a project is called; nil: there is
// only one.
func JobTableOf(jobs []view.Job, name func(project string) string, now time.Time, n int) JobTable {
	t := JobTable{Several: name != nil}
	for _, j := range jobs[:min(len(jobs), n)] {
		r := JobRow{
			Name: JobName(j), Reason: format.Cut(j.Reason, MaxMessage), Begun: MomentOf(cmp.Or(j.Created, j.Begun), now),
			Link: j.PRLink.Safe(), LinkText: format.Cut(string(j.PRLink), MaxName),
		}
		r.State, r.Tone = JobState(j.State, j.Result)
		if t.Several {
			r.Project = name(j.Project)
		}
		if j.Title != "" {
			r.Prompt = format.Cut(j.Prompt, MaxName)
		}
		if r.Link != "" {
			r.LinkText = linkText(r.Link)
		}
		if p := j.Pull; p != nil {
			r.Review = Review(p.State, p.Opened, p.Ended, now)
		}
		if j.Cost != 0 {
			r.Cost = strconv.FormatFloat(j.Cost, 'f', -1, 64)
		}
		switch {
		case !j.Ended.IsZero() && !j.Created.IsZero():
			r.Took = Took(j.Ended.Sub(j.Created))
		case j.Stalled:
			r.Took = "stalled"
		}
		t.Rows = append(t.Rows, r)
	}
	if more := len(jobs) - len(t.Rows); more > 0 {
		t.More = format.Plural(more, "older job") + " not shown; docgauge jobs list shows all"
	}
	return t
}

// Review is the state of a pull request, and how long it has waited for people since it
// was opened, or did until it ended.
func Review(state string, opened, ended, now time.Time) string {
	if opened.IsZero() || state == "unknown" {
		return state
	}
	if ended.IsZero() {
		ended = now
	}
	return state + ", " + format.Duration(max(0, ended.Sub(opened)))
}

// JobName is the title of a job, or else its prompt.
func JobName(j view.Job) string { return format.Cut(cmp.Or(j.Title, j.Prompt), MaxName) }

// linkText names a pull request by the end of its address: #412.
func linkText(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	last := strings.Trim(u.Path, "/")
	last = format.Cut(last[strings.LastIndexByte(last, '/')+1:], 40)
	switch {
	case last == "":
		return u.Host
	case strings.Trim(last, "0123456789") == "":
		return "#" + last
	}
	return "…/" + last
}

// pauses say why the queue is paused, and what resumes it.
var pauses = map[string]string{
	"unknown":      "It is not known whether two prompts in a row reached the service: check docgauge jobs list, resolve them, then run docgauge jobs release.",
	"unauthorized": "The service rejected the key: the queue resumes when the key changes.",
	"operator":     "Held by the operator: docgauge jobs release resumes it.",
	"new_state":    "Prompt files exist but no job history was found: set DOCGAUGE_PROMPTS_ON_NEW_STATE.",
}

// Paused says why the queue submits no prompt; empty: it does.
func Paused(q view.Queue) string {
	switch {
	case q.Problem != "":
		return q.Problem
	case q.Paused == "":
		return ""
	case q.PausedSince.IsZero():
		return "The queue is paused. " + pauses[q.Paused]
	}
	return "The queue has been paused since " + format.Time(q.PausedSince) + ". " + pauses[q.Paused]
}
