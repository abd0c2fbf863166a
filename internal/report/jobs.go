package report

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/htmlview"
)

const (
	// maxJobs bounds the table of jobs.
	maxJobs = 100
	// maxLink is the longest link that is shown, in bytes.
	maxLink = 1000
)

// health is how the export stands.
type health struct {
	Outcome, Tone string
	Started       htmlview.Moment
	Success       htmlview.Moment
	Message       string
}

var outcomes = map[string][2]string{
	"success": {"succeeded", "ok"}, "deferred": {"left the rest to the budget", "wait"}, "failed": {"failed", "bad"},
	"interrupted": {"was interrupted", "wait"}, "": {"is running, or was killed", "wait"},
}

func healthOf(s State, now time.Time) *health {
	h := &health{Success: htmlview.MomentOf(s.LastSuccess, now)}
	if run := s.LastRun; run != nil {
		h.Outcome, h.Tone = run.Outcome, "wait"
		if words, known := outcomes[run.Outcome]; known {
			h.Outcome, h.Tone = words[0], words[1]
		}
		h.Started, h.Message = htmlview.MomentOf(run.Started, now), htmlview.Cut(run.Message, maxTitle)
	}
	return h
}

// queue is what the agent did.
type queue struct {
	Text    string // 3 jobs, 2 of them ended
	Paused  string
	Results []result
	Median  string // time to a pull request
	Jobs    []job
	More    string
	Several bool // projects
}

// result is how many jobs ended so. Bar is their share, of 100.
type result struct {
	Class, Text, Count string
	Bar                int
}

// job is one row.
type job struct {
	Name, Note, Project string
	State, Tone, Took   string
	Created             htmlview.Moment
	PRLink, PR          string
	Reason              string
}

var resultWords = map[string]string{"pr": "pull request", "no_pr": "no pull request", "failed": "failed", "archived": "archived", "lost": "lost"}

func queueOf(r Report) *queue {
	q := r.State.Queue
	if q == nil {
		return nil
	}
	v := &queue{Paused: q.Paused, Several: len(r.Projects) > 1}
	ended, begun := 0, 0
	for _, j := range q.Jobs {
		if j.Result != "" {
			ended++
		}
		if !j.Begun.IsZero() {
			begun++
		}
	}
	v.Text = htmlview.Plural(begun, "job") + " begun, " + htmlview.Commas(ended) + " ended"
	v.Results, v.Median = results(q.Jobs, ended), median(q.Jobs)
	for _, j := range q.Jobs[:min(len(q.Jobs), maxJobs)] {
		v.Jobs = append(v.Jobs, jobOf(j, r.Made))
	}
	if more := len(q.Jobs) - len(v.Jobs); more > 0 {
		v.More = htmlview.Plural(more, "older job") + " not shown; docgauge jobs list has them all"
	}
	return v
}

func results(jobs []Job, ended int) (out []result) {
	for _, name := range []string{"pr", "no_pr", "failed", "archived", "lost"} {
		n := 0
		for _, j := range jobs {
			if j.Result == name {
				n++
			}
		}
		if n > 0 {
			out = append(out, result{resultClass(Job{Result: name}), resultWords[name], htmlview.Commas(n), n * 100 / ended})
		}
	}
	return out
}

// median is the time from creation to a pull request of the job in the middle.
func median(jobs []Job) string {
	var all []time.Duration
	for _, j := range jobs {
		if j.Result == "pr" && !j.Created.IsZero() && !j.Ended.IsZero() {
			all = append(all, j.Ended.Sub(j.Created))
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return htmlview.Took(all[(len(all)-1)/2])
}

var jobTones = map[string]string{
	"completed": "ok", "active": "wait", "submitting": "wait", "pending": "wait",
	"failed": "bad", "rejected": "bad", "unknown": "bad", "lost": "bad", "invalid": "bad",
}

func nameOf(j Job) string { return htmlview.Cut(cmp.Or(j.Title, j.Prompt), maxLetters) }

func jobOf(j Job, now time.Time) job {
	v := job{
		Name: nameOf(j), Project: j.Project, State: j.State, Tone: jobTones[j.State], Reason: htmlview.Cut(j.Reason, maxTitle),
		Created: htmlview.MomentOf(cmp.Or(j.Created, j.Begun), now),
	}
	if j.Title != "" {
		v.Note = htmlview.Cut(j.Prompt, maxLetters)
	}
	if j.Result == "no_pr" {
		v.State, v.Tone = "completed without a pull request", "wait"
	}
	v.PRLink, v.PR = link(j.PRLink)
	switch {
	case !j.Ended.IsZero() && !j.Created.IsZero():
		v.Took = htmlview.Took(j.Ended.Sub(j.Created))
	case j.Stalled:
		v.Took = "stalled"
	}
	return v
}

// link returns an address that may be followed, https or of this machine, and what
// it is called; what may not be followed is called by what it is.
func link(text string) (href, name string) {
	u, err := url.Parse(text)
	follow := err == nil && u.Host != "" && len(text) <= maxLink &&
		(u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()))
	if !follow {
		return "", htmlview.Cut(text, maxLetters)
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	last := htmlview.Cut(parts[len(parts)-1], 40)
	switch {
	case last == "":
		return text, u.Host
	case strings.Trim(last, "0123456789") == "":
		return text, "#" + last
	}
	return text, fmt.Sprintf("…/%s", last)
}
