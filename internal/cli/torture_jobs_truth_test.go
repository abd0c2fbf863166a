package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clijobs "github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
)

// torturedPrompt is a prompt file, and how its job must end.
type torturedPrompt struct {
	id, name  string
	followUps int
	needed    bool // another depends on it
	end       journal.State
}

// writePrompts writes n prompt files: most are plain, some have follow-ups, depend
// on others or share a concurrency key. They are an hour old: a run takes them at
// once.
func writePrompts(t *testing.T, dir string, n int) []torturedPrompt {
	all := make([]torturedPrompt, n)
	for i := range all {
		all[i] = tortured(i)
		front := []string{"project: " + tortureProjects[i%len(tortureProjects)]}
		if !strings.HasSuffix(all[i].id, ".md") {
			front = append(front, "id: "+all[i].id)
		}
		if i%20 == 9 {
			front = append(front, "depends_on: ["+all[i-1].id+"]")
		}
		if i%30 == 7 {
			front = append(front, "concurrency_key: shared")
		}
		if all[i].followUps > 0 {
			front = append(front, "follow_ups:")
		}
		for k := range all[i].followUps {
			front = append(front, fmt.Sprintf(`  - "Task %s, follow-up %d."`, all[i].name, k+1))
		}
		text := fmt.Sprintf("---\n%s\n---\nTask %s. %s\n", strings.Join(front, "\n"), all[i].name, word(i))
		path := filepath.Join(dir, "prompts", fmt.Sprintf("%d", i%7), all[i].name+".md")
		writePrompt(t, path, text)
	}
	return all
}

func writePrompt(t *testing.T, path, text string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600),
		os.Chtimes(path, old, old)))
}

func tortured(i int) torturedPrompt {
	p := torturedPrompt{name: fmt.Sprintf("p-%04d", i), needed: i%20 == 8, end: journal.Completed}
	p.id = p.name
	if i%2 == 1 {
		p.id = fmt.Sprintf("%d/%s.md", i%7, p.name)
	}
	switch {
	case i%20 == 8:
	case i%12 == 5:
		p.followUps = 2
	case i%10 == 6:
		p.end = journal.Failed
	case i%50 == 11:
		p.end = journal.Archived
	}
	return p
}

// word returns the word that makes the sandbox end a job as the prompt requires.
func word(i int) string {
	p := tortured(i)
	switch {
	case p.end == journal.Failed:
		return "[sandbox:fail]"
	case p.end == journal.Archived:
		return "[sandbox:archive]"
	case p.followUps > 0:
		return "[sandbox:slow=2s]"
	case i%10 == 3:
		return "[sandbox:no-change]"
	}
	return ""
}

// verdict compares docgauge's journal with the service's, in numbers of prompts and follow-ups.
type verdict struct {
	kills, deaths, releases               int // of docgauge, of the service, of the queue
	dropped, badGateway, throttled        int // answers
	prompts, accepted, twice, lost        int
	unknown, unknownAccepted, waiting     int
	messages, messagesTwice               int
	unknownMessages, unknownMessagesTaken int
}

// judge compares every prompt; the service must not run.
func (q *torturedQueue) judge() verdict {
	q.t.Helper()
	v := verdict{kills: q.kills, deaths: q.service.deaths, releases: q.releases, prompts: len(q.prompts)}
	answers := q.service.answered(q.t)
	v.dropped, v.badGateway, v.throttled = answers[0], answers[http.StatusBadGateway],
		answers[http.StatusTooManyRequests]
	truth, planned := q.service.truth(q.t), map[string]jobs.Planned{}
	for _, p := range q.plan() {
		planned[p.ID] = p
	}
	if len(planned) != len(q.prompts) {
		q.t.Errorf("jobs plan knows %d prompts of %d", len(planned), len(q.prompts))
	}
	for _, p := range q.prompts {
		of := truth[p.name]
		if of == nil {
			of = &taken{}
		}
		q.judgeCreate(&v, p, *of, planned[p.id])
		q.judgeMessages(&v, p, *of, planned[p.id])
		if len(of.jobs) > 1 || p.followUps < len(of.messages) {
			q.t.Errorf("%s: accepted as %v, with messages %v\n%s", p.id, of.jobs, of.messages,
				q.run(q.t, "jobs", "show", p.id))
		}
	}
	return v
}

func (q *torturedQueue) judgeCreate(v *verdict, p torturedPrompt, of taken, now jobs.Planned) {
	var job journal.Job
	if now.Job != nil {
		job = *now.Job
	}
	inDoubt := now.State == journal.Unknown && !job.Sending
	if inDoubt {
		v.unknown++
	}
	if now.State == journal.Pending {
		v.waiting++
	}
	switch {
	case len(of.jobs) > 0:
		v.accepted++
		if inDoubt {
			v.unknownAccepted++
		} else if job.JobID != of.jobs[0] {
			q.t.Errorf("%s: is job %s, docgauge has %q, %s", p.id, of.jobs[0], job.JobID, now.State)
		}
		if len(of.jobs) > 1 {
			v.twice++
		}
	case inDoubt, now.State == journal.Pending, q.dropped[p.id] && now.State == journal.Cancelled:
	default:
		v.lost++
		q.t.Errorf("%s: never accepted, and %q", p.id, now.State)
	}
}

func (q *torturedQueue) judgeMessages(v *verdict, p torturedPrompt, of taken, now jobs.Planned) {
	if now.Job == nil || p.followUps == 0 {
		return
	}
	v.messages += len(of.messages)
	if unique := slices.Compact(slices.Sorted(slices.Values(of.messages))); len(unique) < len(of.messages) {
		v.messagesTwice++
	}
	if !slices.IsSorted(of.messages) {
		q.t.Errorf("%s: follow-ups were accepted in the order %v", p.id, of.messages)
	}
	sent := now.Job.Sent
	if now.State == journal.Unknown && now.Job.Sending {
		v.unknownMessages++
		if slices.Contains(of.messages, sent+1) {
			v.unknownMessagesTaken++
			sent++
		}
	}
	if !q.droppedMessages[p.id] && len(of.messages) != sent {
		q.t.Errorf("%s: %d follow-ups were accepted, docgauge has %d, %s", p.id, len(of.messages), sent, now.State)
	}
}

// resolved counts the decisions of a person about unknown jobs.
type resolved struct{ found, resubmitted, dropped int }

// resolveAll follows the remedy of jobs list for each unknown job, like a person
// after a look at the service.
func (q *torturedQueue) resolveAll() (stderr resolved) {
	truth, text := q.service.truth(q.t), string(q.run(q.t, "jobs", "list"))
	byID := map[string]torturedPrompt{}
	for _, p := range q.prompts {
		byID[p.id] = p
	}
	for i, job := range q.list().Jobs {
		if job.State != journal.Unknown {
			continue
		}
		seq, p := strconv.FormatInt(job.Seq, 10), byID[job.Prompt]
		if !strings.Contains(text, "docgauge jobs resolve "+seq+" ") {
			q.t.Errorf("jobs list does not say what to do about job %s", seq)
		}
		q.explained(seq, p)
		q.run(q.t, append([]string{"jobs", "resolve", seq}, q.answer(&stderr, job.Job, p, truth[p.name], i)...)...)
	}
	return stderr
}

// explained expects that jobs show has the text that was sent, and why it is in doubt.
func (q *torturedQueue) explained(seq string, p torturedPrompt) {
	var h clijobs.Listed
	q.decode(&h, "jobs", "show", seq, "--json")
	last := h.Events[len(h.Events)-1]
	if !strings.Contains(h.Text, "Task "+p.name+".") || h.Reason == "" || last.To != journal.Unknown ||
		last.Cause == "" || !h.InDoubt {
		q.t.Errorf("jobs show of %s: %+v", p.id, h)
	}
}

// answer is the decision about a job in doubt by a person who knows the service's jobs.
// In the short form a follow-up that was accepted is let be: docgauge waits half a
// minute with one that it accepts.
func (q *torturedQueue) answer(stderr *resolved, job journal.Job, p torturedPrompt, of *taken, i int) []string {
	message := job.Sending
	switch {
	case !message && of != nil:
		stderr.found++
		return []string{"--job-id", of.jobs[0]}
	case message && slices.Contains(of.messages, job.Sent+1) && q.long():
		stderr.found++
		return []string{"--job-id", job.JobID}
	case message && (i%2 == 0 || !q.long()):
		q.droppedMessages[p.id] = true
	case !message && i%2 == 0 && !p.needed:
		q.dropped[p.id] = true
	default:
		stderr.resubmitted++
		return []string{"--resubmit"}
	}
	stderr.dropped++
	return []string{"--drop"}
}

// compareEnds expects of every prompt the end that it wants.
func (q *torturedQueue) compareEnds() {
	for _, p := range q.plan() {
		i := slices.IndexFunc(q.prompts, func(known torturedPrompt) bool { return known.id == p.ID })
		if i < 0 {
			q.t.Errorf("prompt %s is unknown", p.ID)
			continue
		}
		want := q.prompts[i].end
		if q.dropped[p.ID] {
			want = journal.Cancelled
		}
		if p.State != want {
			q.t.Errorf("%s is %s, want %s: %s", p.ID, p.State, want, p.Reason)
		}
	}
}
