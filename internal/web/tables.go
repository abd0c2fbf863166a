package web

import (
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// pageTable is the most read pages of a window, or how they changed. The template "pagetable"
// shows it.
type pageTable struct {
	Title, Note string
	Compared    bool // with an earlier window
	First, More []pageRow
}

// pageRow is one page. Bar is its share of the most read page, of 100.
type pageRow struct {
	analytics.Change
	Bar      int64
	Compared bool
}

// add appends pages, the most read one first. The first n are shown unfolded.
func (t *pageTable) add(pages []analytics.Change, n int) {
	var rows []pageRow
	for _, c := range pages {
		rows = append(rows, pageRow{c, min(c.After.Total*100/max(pages[0].After.Total, 1), 100), t.Compared})
	}
	n = min(n, len(rows))
	t.First, t.More = rows[:n], rows[n:]
}

// gain is the change of the visitors of a page.
func gain(c analytics.Change) string {
	if c.Appeared {
		return "new"
	}
	return view.Signed(c.By(analytics.Everyone))
}

// gainTone is up or down, or empty if the number is unchanged.
func gainTone(c analytics.Change) string {
	switch gain := c.By(analytics.Everyone); {
	case gain > 0 || c.Appeared:
		return "up"
	case gain < 0:
		return "down"
	}
	return ""
}

// jobTable is the agent jobs of a queue: those that wait to become one, then the newest first. The
// template "jobtable" shows them.
type jobTable struct {
	Text   string // how many there are
	Paused string // why no prompt is submitted; empty: prompts are submitted
	Jobs   []view.Job
	Now    time.Time
	// Project returns the name of a project; nil: there is only one.
	Project func(id string) string
	More    int // how many are not shown
}

// jobTableOf shows at most n jobs.
func jobTableOf(q view.Queue, text string, project func(id string) string, now time.Time, n int) *jobTable {
	jobs := slices.Concat(q.Waiting, q.Jobs)
	more := max(0, len(jobs)-n)
	return &jobTable{text, pausedText(q), jobs[:len(jobs)-more], now, project, more}
}

// jobTook is how long a job took, or that it is stalled; a dash if that is not known.
func jobTook(j view.Job) string {
	switch {
	case !j.Ended.IsZero() && !j.Created.IsZero():
		return took(j.Ended.Sub(j.Created))
	case j.Stalled:
		return "stalled"
	}
	return "–"
}

// pauses are the reasons why the queue is paused, with the remedy.
var pauses = map[string]string{
	"unknown": "It is not known whether two prompts in a row reached the service: check docgauge jobs list, " +
		"resolve them, then run docgauge jobs release.",
	"unauthorized": "The service rejected the key: the queue resumes when the key changes.",
	"operator":     "Held by the operator: docgauge jobs release resumes it.",
	"new_state":    "Prompt files exist but no job history was found: set DOCGAUGE_PROMPTS_ON_NEW_STATE.",
}

// pausedText returns the reason why the queue submits no prompt; empty if it submits prompts.
func pausedText(q view.Queue) string {
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
