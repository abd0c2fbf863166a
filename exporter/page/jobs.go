package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/htmlview"
)

// maxJobs bounds the table of jobs.
const maxJobs = 50

// queue is the prompt queue: nil where there is none.
type queue struct {
	Text   string // 2 pending, 1 active
	Paused string
	Jobs   []job
	More   string
}

// job is an agent job. PR is what its link is called.
type job struct {
	Prompt, Title, Project string
	State, Tone, Took      string
	Created                htmlview.Moment
	PRLink, PR             string
	Reason                 string
}

func queueOf(s *exporter.Snapshot) *queue {
	if s.Queue == nil {
		return nil
	}
	q := &queue{Text: promptsOf(s.Queue.Prompts), Paused: pausedBy(*s.Queue)}
	for _, j := range s.Queue.Jobs[:min(len(s.Queue.Jobs), maxJobs)] {
		q.Jobs = append(q.Jobs, jobOf(s, j))
	}
	if more := len(s.Queue.Jobs) - len(q.Jobs); more > 0 {
		q.More = htmlview.Plural(more, "older job") + " not shown"
	}
	return q
}

// promptsOf adds the prompts of all projects up, by state.
func promptsOf(all []exporter.Prompts) string {
	var order []string
	sums := map[string]int{}
	for _, p := range all {
		if sums[p.State] += p.Count; sums[p.State] == p.Count && p.Count > 0 {
			order = append(order, p.State)
		}
	}
	for i, state := range order {
		order[i] = htmlview.Commas(sums[state]) + " " + state
	}
	return cmp.Or(strings.Join(order, ", "), "No prompts")
}

// pauses say why the queue is paused, and what resumes it.
var pauses = map[string]string{
	"unknown":      "Two prompts in a row may or may not have reached the service: see docgauge jobs list, resolve them, then docgauge jobs release.",
	"unauthorized": "The service refused the key: the queue goes on when the key changes.",
	"operator":     "Held by the operator: docgauge jobs release lets it go on.",
	"new_state":    "There are prompts and a state directory without any job: see DOCGAUGE_PROMPTS_ON_NEW_STATE.",
}

func pausedBy(q exporter.Queue) string {
	switch {
	case q.Problem != "":
		return q.Problem
	case q.Paused != "":
		return "Paused. " + pauses[q.Paused]
	}
	return ""
}

var jobTones = map[string]string{
	"completed": "ok", "active": "wait", "submitting": "wait",
	"failed": "bad", "rejected": "bad", "unknown": "bad", "lost": "bad", "invalid": "bad",
}

func jobOf(s *exporter.Snapshot, j exporter.Job) job {
	v := job{
		Prompt: htmlview.Cut(j.Prompt, maxLetters), Title: htmlview.Cut(j.Title, maxLetters), Project: j.Project,
		State: j.State, Tone: jobTones[j.State], Created: htmlview.MomentOf(j.Created, s.At), Reason: j.Reason,
	}
	if strings.HasPrefix(j.PRLink, "https://") || strings.HasPrefix(j.PRLink, "http://") {
		v.PRLink, v.PR = j.PRLink, linkText(j.PRLink)
	}
	switch {
	case !j.Ended.IsZero() && !j.Created.IsZero():
		v.Took = "in " + htmlview.Took(j.Ended.Sub(j.Created))
	case j.Stalled:
		v.Took = "stalled"
	}
	return v
}

// maxLetters is the most letters of a prompt's name or title.
const maxLetters = 200

// linkText names a pull request by the end of its URL.
func linkText(url string) string {
	parts := strings.Split(strings.Trim(url, "/"), "/")
	last := htmlview.Cut(parts[len(parts)-1], 40)
	if strings.Trim(last, "0123456789") == "" {
		return "#" + last
	}
	return fmt.Sprintf("…/%s", last)
}
