package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// learns sets the known state of the pull request of a prompt.
func (w *world) learns(prompt string, state journal.PullState, created time.Time) {
	w.Helper()
	job := w.job(prompt)
	if job.PRLink == "" {
		w.Fatalf("%s has no pull request: %+v", prompt, job)
	}
	p := journal.PullRequest{Link: job.PRLink, Project: job.Project, State: state, Created: created}
	if state == journal.PullUnknown {
		p.Problem = "GitHub is not asked: DOCGAUGE_GITHUB_TOKEN is not set"
	}
	isIt := func(other journal.PullRequest) bool { return other.Link == p.Link }
	w.memory.pulls = append(slices.DeleteFunc(w.memory.pulls, isIt), p)
}

// waitingPulls counts the pull requests at the service that people have not ended.
func (w *world) waitingPulls() (n int) {
	ended := map[string]bool{}
	for _, p := range w.memory.pulls {
		ended[p.Link] = p.State.Ended()
	}
	for _, j := range w.service.jobs {
		if link := w.service.show(j).PRLink; link != "" && !ended[link] {
			n++
		}
	}
	return n
}

// TestCapOnOpenPulls: under 25 prompts and processes that are killed and started anew, there
// are never more pull requests than the cap: not while jobs are at work, not before their
// pull requests were read, and not while the host is silent. All prompts are sent in the end.
func TestCapOnOpenPulls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.opt.MaxOpenPulls = rapid.IntRange(3, 8).Draw(t, "cap")
		for i := range 25 {
			w.prompt(prompts.Prompt{
				ID: fmt.Sprint(i), Project: fmt.Sprint("prj_", i%3),
				Body: fmt.Sprintf("do %d%s", i,
					rapid.SampledFrom([]string{"", "", " fails", " no change"}).Draw(t, "how")),
			})
		}
		calls := []string{callCreate, callRead, callApply, callPulls, callJobs}
		for range 40 {
			w.failing(rapid.SampledFrom(calls).Draw(t, "call"), rapid.IntRange(1, 8).Draw(t, "nth"),
				rapid.SampledFrom(append(slices.Clip(faults.OfCalls), faults.None, faults.None)).Draw(t, "fault"))
			if rapid.Bool().Draw(t, "new process") {
				w.queue = nil
			}
			w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
			_, _ = w.pass() // a fault is its error
			if n := w.waitingPulls(); n > w.opt.MaxOpenPulls {
				t.Fatalf("%d pull requests are open, and the cap is %d", n, w.opt.MaxOpenPulls)
			}
			w.resolveAll()
			if n := int64(len(w.memory.jobs)); n > 0 {
				job := w.memory.jobs[rapid.Int64Range(1, n).Draw(t, "job")]
				known := PullsByLink([]journal.Job{job}, w.memory.pulls)[job.PRLink]
				if job.PRLink != "" && !known.State.Ended() {
					w.learns(job.Prompt, rapid.SampledFrom(journal.PullStates()).Draw(t, "state"), start)
				}
			}
		}
		w.faults = nil
		for range 300 {
			w.after(turn)
			w.resolveAll()
			if !slices.ContainsFunc(w.folder, func(p prompts.Prompt) bool { return w.service.taken(p.Body) == 0 }) {
				break
			}
			for _, job := range w.memory.jobs {
				if job.PRLink != "" {
					w.learns(job.Prompt, journal.PullMerged, start)
				}
			}
		}
		for _, p := range w.folder {
			w.sent(p.Body, 1)
		}
	})
}

// TestOnePullRequest: a pull request is one however the service spells its link, whether two jobs end in one pass or
// in several. The part of a link before its host is kept nowhere.
func TestOnePullRequest(t *testing.T) {
	w := newWorld(t)
	w.service.links = map[string]string{}
	for i, link := range []string{
		"https://github.com/acme/docs/pull/1", "https://github.com/acme/docs/pull/1/",
		"https://GitHub.com/Acme/Docs/pull/1#x", "https://github.com/acme/docs/pull/1/files?w=1",
		"https://user:PW@github.com/acme/docs/pull/1", "https://user:PW@code.example/acme/docs/pull/2",
		"https://code.example:PW@evil.example/x", "javascript:alert(1)", "ftp://user:PW@host/x",
	} {
		p := w.prompt(prompts.Prompt{ID: fmt.Sprint(i), Body: fmt.Sprint("do ", i)})
		w.service.links[p.Body] = link
		if i%2 == 1 {
			w.passes()
			w.after(turn)
		}
	}
	w.passes()
	w.after(turn)
	links := map[string]int{}
	for _, job := range w.memory.jobs {
		links[job.PRLink]++
	}
	want := map[string]int{
		"https://github.com/acme/docs/pull/1": 5, "https://redacted@code.example/acme/docs/pull/2": 1,
		"https://redacted@evil.example/x": 1, "not a web link: javascript:alert(1)": 1,
		"not a web link: ftp://redacted@host/x": 1,
	}
	if diff := cmp.Diff(want, links); diff != "" {
		t.Error(diff)
	}
	if n := reviewsOf(w.jobs(), PullsByLink(w.jobs(), nil), w.clock).used(); n != len(want) {
		t.Errorf("%d count against the cap, want %d", n, len(want))
	}
	kept := fmt.Sprintf("%+v %+v", w.memory.jobs, w.memory.history)
	for _, note := range w.memory.events {
		kept += string(note.Body)
	}
	if strings.Contains(kept, "PW") {
		t.Error("a password is kept: ", kept)
	}
}

// TestOpenPullsReason: what holds a prompt is said with what to do, and without a known
// state that all of them count.
func TestOpenPullsReason(t *testing.T) {
	w := newWorld(t, ids...)
	w.opt.MaxOpenPulls = 2
	if p := w.planned("b"); !p.Ready() {
		t.Errorf("%+v", p)
	}
	w.waitsFor("c", whyOpenPulls, journal.Pending) // the two before it count
	w.passes()
	w.waitsFor("c", whyOpenPulls, journal.Pending,
		"0 pull requests open, and 2 jobs at work that may open another (DOCGAUGE_MAX_OPEN_PULL_REQUESTS is 2)")
	w.after(turn)
	w.learns("a", journal.PullDraft, start)
	p := w.waitsFor("c", whyOpenPulls, journal.Pending,
		"2 pull requests open, 1 of them counted as open because their state is unknown (DOCGAUGE")
	if !p.Until.IsZero() {
		t.Error(p.Until)
	}
	if r := w.after(time.Hour); !r.isIdle() || r.Created > 0 {
		t.Errorf("a wait for people keeps it going: %+v", r)
	}
	w.learns("b", journal.PullClosed, start)
	if r := w.passes(); r.Created != 1 {
		t.Errorf("%d created", r.Created)
	}
	if n := reviewsOf(w.jobs(), PullsByLink(w.jobs(), w.memory.pulls), w.clock).used(); n != 2 {
		t.Errorf("%d are used", n)
	}
}

// TestGonePulls: a pull request of a repository that was deleted does not hold the queue for ever.
func TestGonePulls(t *testing.T) {
	p := journal.PullRequest{Link: "https://code.example/a/b/pull/1", State: journal.PullUnknown}
	for missing, want := range map[time.Duration]int{0: 1, 29 * 24 * time.Hour: 1, 30 * 24 * time.Hour: 0} {
		if missing > 0 {
			p.Missing = start.Add(-missing)
		}
		if n := reviewsOf(nil, map[string]journal.PullRequest{"": p}, start).used(); n != want {
			t.Errorf("missing for %v: %d count, want %d", missing, n, want)
		}
		p.Missing = time.Time{}
	}
}

// TestReviewAge: no job begins while the median age of the open pull requests exceeds the
// limit; ended ones do not count, and an unknown one counts from its job on.
func TestReviewAge(t *testing.T) {
	w := newWorld(t)
	for _, id := range ids[:3] {
		w.prompt(prompts.Prompt{ID: id})
	}
	w.passes()
	w.after(turn)
	w.opt.MaxReviewAge = 72 * time.Hour
	w.prompt(prompts.Prompt{ID: "next", Body: "next slow"})
	w.learns("a", journal.PullOpen, start.Add(-100*day))
	w.learns("b", journal.PullOpen, start.Add(time.Hour))
	w.queue = nil
	w.clock = start.Add(72 * time.Hour)
	if p := w.planned("next"); !p.Ready() { // c is unknown, of 72 hours
		t.Fatalf("%+v", p)
	}
	w.clock = w.clock.Add(time.Minute)
	w.waitsFor("next", whyReviewAge, journal.Pending, "3 pull requests open, 1 of them counted as open because their "+
		"state is unknown, for 3 d in the median (DOCGAUGE_MAX_REVIEW_AGE is 3 d)")
	w.learns("a", journal.PullMerged, start.Add(-100*day))
	w.passes()
	w.has("next", journal.Active)
}

// TestMedian: of an even number it is between the two in the middle.
func TestMedian(t *testing.T) {
	for want, ages := range map[time.Duration][]time.Duration{
		0: nil, 5: {5}, 6: {4, 8}, 7: {1, 7, 100}, 8: {1, 7, 9, 100},
	} {
		if got := (reviews{ages: ages}).median(); got != want {
			t.Errorf("%v: %v, want %v", ages, got, want)
		}
	}
}

// TestWhenMerged: a prompt that waits for a merge goes once that is known, and never after
// a close, a failure or a job without a pull request.
func TestWhenMerged(t *testing.T) {
	w := newWorld(t, "a")
	w.prompt(prompts.Prompt{ID: "f", Body: "f fails"})
	w.prompt(prompts.Prompt{ID: "n", Body: "n no change"})
	for _, id := range []string{"a", "f", "n"} {
		w.prompt(prompts.Prompt{ID: "after " + id, DependsOn: []string{id}, Merged: []string{id}})
	}
	w.prompt(prompts.Prompt{ID: "plain", DependsOn: []string{"a"}})
	says := func(id, part string) {
		t.Helper()
		w.waitsFor(id, whyDependency, journal.Pending, part)
	}
	says("after a", "waits for the pull request of a to be merged: the job is pending")
	w.passes()
	w.after(turn)
	w.has("plain", journal.Active)
	says("after f", "that is failed without one: docgauge jobs retry f")
	says("after n", "that is completed without one: docgauge jobs retry n")
	says("after a", "it is unknown, it was not read yet")
	for _, state := range []journal.PullState{journal.PullDraft, journal.PullOpen} {
		w.learns("a", state, start)
		says("after a", "it is "+string(state))
	}
	w.learns("a", journal.PullUnknown, start)
	says("after a", "DOCGAUGE_GITHUB_TOKEN is not set")
	w.learns("a", journal.PullClosed, start)
	says("after a", "it was closed without that")
	w.after(time.Hour)
	w.none("after a")
	w.learns("a", journal.PullMerged, start)
	w.passes()
	w.has("after a", journal.Active)
}

// TestPullsUnread: where the pull requests cannot be read nothing is sent, and where nothing
// depends on them they are not read.
func TestPullsUnread(t *testing.T) {
	w := newWorld(t, "a")
	w.opt.MaxReviewAge = time.Hour
	w.failing(callPulls, 1, faults.RequestLost)
	if _, err := w.pass(); err == nil {
		t.Error("no error")
	}
	w.none("a")
	w.queue, w.opt.MaxReviewAge = nil, 0
	w.passes()
	if n := w.on.Calls()[callPulls]; n != 0 {
		t.Errorf("read %d times", n)
	}
	w.has("a", journal.Active)
}

// TestJobCost: a job keeps the estimate of when it was sent, also over another try.
func TestJobCost(t *testing.T) {
	w := newWorld(t)
	w.opt.JobCost = 1.5
	w.prompt(prompts.Prompt{ID: "a", Pages: []string{"/a"}})
	w.passes()
	w.after(turn)
	w.opt.JobCost, w.queue = 2, nil
	w.decides("retry", "a")
	w.passes()
	w.after(turn)
	all := w.jobs()
	if len(all) != 2 || all[0].Estimate != 1.5 || all[1].Estimate != 2 ||
		len(all[0].Pages) != 1 || len(all[1].Pages) != 1 {
		t.Errorf("%+v", all)
	}
}

// TestReportedCost: the newest cost that the service reports counts, also if it is unknown again, and an
// invalid one ends the job as any other, and is in its history.
func TestReportedCost(t *testing.T) {
	const problem = "cost: want a number"
	var reported docsapi.JobCost
	w := newWorld(t)
	w.service.costs = func(*remote) docsapi.JobCost { return reported }
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"more"}})
	cost := func() any {
		if c := w.job("a").Cost; c != nil {
			return *c
		}
		return nil
	}
	w.passes()
	for _, step := range []struct {
		reported docsapi.JobCost
		want     any
	}{
		{docsapi.JobCost{Amount: new(0.25), Unit: "USD", Tokens: new(int64(1200))}, 0.25},
		{docsapi.JobCost{}, nil},
		{docsapi.JobCost{Problem: problem}, nil},
	} {
		reported = step.reported
		w.queue = nil // another process
		w.after(turn)
		if got := cost(); got != step.want {
			t.Errorf("cost %v after %+v", got, step.reported)
		}
	}
	w.after(turn)
	job := w.has("a", journal.Completed)
	if h := w.memory.history[job.Seq]; !strings.Contains(h[len(h)-1].Cause, problem) {
		t.Errorf("%+v", h)
	}
	if job.PRLink == "" || job.Sent != 1 || job.CostUnit != "" || job.Tokens != nil {
		t.Errorf("%+v", job)
	}
}
