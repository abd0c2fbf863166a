package runner

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// editor fails or changes nothing if a test says so; else it pretends.
type editor struct {
	words
	err, diffErr error
	still        bool
	tasks        []Task
}

func (e *editor) Edit(ctx context.Context, t Task) (Result, error) {
	e.tasks = append(e.tasks, t)
	result, _ := e.words.Edit(ctx, t)
	if e.still {
		result.Change = t.Last
	}
	result.Output = "output of " + t.Prompt
	return result, e.err
}

func (e *editor) Diff(ctx context.Context, c Change) (string, error) {
	diff, _ := e.words.Diff(ctx, c)
	return diff, e.diffErr
}

// TestArchivedByTheRightClock: a clock that may be wrong archives no job.
func TestArchivedByTheRightClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, held := noon, true
		s := open(t, Options{ArchiveAfter: time.Hour, Now: func() time.Time { return now },
			ClockHeld: func() bool { return held }})
		id := create(t, s, "one")
		atRest(s)
		now = noon.Add(50 * 24 * time.Hour)
		for _, want := range []Status{Completed, Archived} {
			if job, err := s.Get("p", id); err != nil || job.Status != want {
				t.Errorf("clock held: %v: %s, %v", held, job.Status, err)
			}
			held = false
		}
		closeQueue(t, s)
	})
}

// A pull request that could not be opened is opened by the next instruction,
// even if that one changes nothing; then there is nothing to propose any more.
func TestFailuresAndWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := &editor{}, newHost()
		s := open(t, Options{Editor: e, Host: h})
		step := func(prompt string) Job {
			send(t, s, s.All()[0].ID, prompt)
			return atRest(s)[0]
		}
		e.err = errors.New("editor broken")
		create(t, s, "one")
		if got := atRest(s)[0]; got.Status != Failed || got.Failure != "editor broken" ||
			got.Output != "output of one" || link(got) != "" {
			t.Errorf("editor: %+v", got)
		}
		e.err, h.err = nil, errors.New("host broken")
		if got := step("two"); got.Status != Failed || got.Failure != "host broken" || link(got) != "" {
			t.Errorf("host: %+v", got)
		}
		h.err, e.diffErr, e.still = nil, errors.New("diff broken"), true
		if got := step("three"); got.Status != Failed || got.Failure != "diff broken" {
			t.Errorf("diff: %+v", got)
		}
		e.diffErr = nil
		if got := step("four"); got.Status != Completed || link(got) != "/pr/1" || got.Failure != "" {
			t.Errorf("again: %+v", got)
		}
		h.err = errors.New("asked once more")
		if got := step("five"); got.Status != Completed || link(got) != "/pr/1" {
			t.Errorf("nothing changed: %+v", got)
		}
		if diff := cmp.Diff([]string{"two"}, e.tasks[4].Last.Messages); diff != "" {
			t.Error(diff)
		}
		closeQueue(t, s)
	})
}

// An archived outcome archives only where nothing is left to do.
func TestArchivedWithMoreToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{Editor: words{time.Minute}})
		id := create(t, s, "[sandbox:archive]")
		send(t, s, id, "x")
		if got := atRest(s)[0]; got.Status != Completed || got.ArchivedAt != nil {
			t.Errorf("%+v", got)
		}
		send(t, s, id, "[sandbox:archive]")
		if got := atRest(s)[0]; got.Status != Archived || !got.ArchivedAt.Equal(noon.Truncate(time.Millisecond)) {
			t.Errorf("%+v", got)
		}
		if _, err := s.Message("p", id, "x"); !errors.Is(err, errArchived) {
			t.Error(err)
		}
		closeQueue(t, s)
	})
}

// TestArchivedByAge: what is kept of a job goes when it is old enough, with the next job or at the start.
func TestArchivedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, now, gone := t.TempDir(), noon, []string{}
		o := Options{Dir: dir, ArchiveAfter: time.Hour, Now: func() time.Time { return now },
			Archived: func(j Job) error { gone = append(gone, j.ID); return nil }}
		s := open(t, o)
		first := create(t, s, "x")
		atRest(s)
		now = noon.Add(2 * time.Hour)
		second := create(t, s, "x")
		atRest(s)
		if want := []string{first}; !slices.Equal(gone, want) {
			t.Errorf("gone %v, want %v", gone, want)
		}
		closeQueue(t, s)
		now, gone = noon.Add(4*time.Hour), nil
		closeQueue(t, open(t, o))
		if want := []string{first, second}; !slices.Equal(gone, want) {
			t.Errorf("gone at the start: %v, want %v", gone, want)
		}
	})
}

// TestCost: the cost of a job is the sum of what its instructions cost, and unknown if one of them is, also
// after a restart.
func TestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, tc := range []struct {
			prompts []string
			want    string
		}{
			{[]string{`a [report:{"cost":0.25,"tokens":5}]`, `b [sandbox:fail][report:{"cost":0.5,"tokens":6}]`,
				`c [sandbox:no-change][report:{"cost":0,"tokens":0}]`}, `{"cost":0.75,"cost_unit":"USD","tokens":11}`},
			{[]string{`a [report:{"cost":0}]`}, `{"cost":0,"cost_unit":"USD"}`},
			{[]string{`a [report:{"cost":0.25,"tokens":5}]`, `b [report:{"tokens":5}]`}, `{"tokens":10}`},
			{[]string{`a [report:{"cost":0.25}]`, "b"}, `{}`},
			{[]string{"a"}, `{}`},
		} {
			s := open(t, Options{Dir: dir})
			id := create(t, s, tc.prompts[0])
			for _, p := range tc.prompts[1:] {
				send(t, s, id, p)
			}
			for _, when := range []string{"at once", "after a restart"} {
				atRest(s)
				job, err := s.Get("p", id)
				check(t, err)
				text, err := json.Marshal(job)
				check(t, err)
				var all map[string]any
				check(t, json.Unmarshal(text, &all))
				maps.DeleteFunc(all, func(key string, _ any) bool {
					return key != "cost" && key != "cost_unit" && key != "tokens"
				})
				if got, _ := json.Marshal(all); string(got) != tc.want {
					t.Errorf("%q %s: %s, want %s", tc.prompts, when, got, tc.want)
				}
				closeQueue(t, s)
				s = open(t, Options{Dir: dir})
			}
			closeQueue(t, s)
		}
		// What was interrupted cost something that is not known.
		s := open(t, Options{Dir: dir, Editor: words{time.Hour}})
		id := create(t, s, `x [report:{"cost":0.5,"tokens":5}]`)
		time.Sleep(time.Minute)
		closeQueue(t, s)
		s = open(t, Options{Dir: dir})
		atRest(s)
		if job, err := s.Get("p", id); err != nil || job.Status != Completed || job.Cost != nil || job.Tokens != nil {
			t.Errorf("interrupted: %+v %v", job, err)
		}
		closeQueue(t, s)
	})
}

// limited is an Editor whose agent meets a limit a few times in each instruction.
type limited struct {
	times, left int
	tasks       []Task
	at          []time.Duration
	began       time.Time
}

func (e *limited) Edit(ctx context.Context, t Task) (Result, error) {
	e.tasks, e.at = append(e.tasks, t), append(e.at, time.Since(e.began))
	total := float64(len(e.tasks)) / 2
	report := &Report{Cost: new(0.5), Session: &session{ID: "s", Cost: &total}}
	if e.left--; e.left >= 0 {
		return Result{Retries: maxRetries, Report: report}, errLimit
	}
	e.left = e.times
	result, err := pretend.Edit(ctx, t)
	result.Report = report
	return result, err
}

func (*limited) Diff(context.Context, Change) (string, error) { return "", nil }

// TestTriedLater: an instruction that meets a limit is tried again, later each time, a bounded number of
// times. Others do not wait for it.
func TestTriedLater(t *testing.T) {
	for times, want := range map[int]Status{0: Completed, 1: Completed, maxRetries: Completed, maxRetries + 1: Failed} {
		synctest.Test(t, func(t *testing.T) {
			e := &limited{times: times, left: times, began: time.Now()}
			s := open(t, Options{Dir: t.TempDir(), Editor: e, Now: time.Now})
			id := create(t, s, "x")
			if got := atRest(s)[0]; got.Status != want || got.RetryAt != nil || len(e.tasks) != min(times, maxRetries)+1 ||
				(got.Failure != "") != (want == Failed) || *got.Cost != float64(len(e.tasks))/2 {
				t.Errorf("%d times: %+v after %v", times, got, e.at)
			}
			for i, at := range e.at {
				if at != firstRetry*time.Duration(1<<i-1) || e.tasks[i].Session != nil || e.tasks[i].Again {
					t.Errorf("%d times: after %s %+v", times, at, e.tasks[i])
				}
			}
			// A follow-up continues the session; its tries too, with what was reported by then.
			e.left, e.tasks = 2, nil
			send(t, s, id, "y")
			atRest(s)
			for i, task := range e.tasks {
				if i > 0 && (task.Session == nil || *task.Session.Cost != 0.5*float64(i)) {
					t.Errorf("%d times, follow-up %d: %+v", times, i, task.Session)
				}
			}
			if len(e.tasks) != 3 || e.tasks[0].Session == nil {
				t.Errorf("%d times, follow-ups: %+v", times, e.tasks)
			}
			closeQueue(t, s)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := &limited{left: 1, began: time.Now()}
		s := open(t, Options{Editor: e})
		create(t, s, "waits")
		synctest.Wait()
		id := create(t, s, "does not")
		synctest.Wait()
		if got, err := s.Get("p", id); err != nil || got.Status != Completed {
			t.Errorf("%+v %v", got, err)
		}
		closeQueue(t, s)
		time.Sleep(firstRetry)
		synctest.Wait()
		if len(e.tasks) != 2 {
			t.Errorf("%d tasks after Close", len(e.tasks))
		}
	})
}

// TestProposedLater: work that is done is not lost while the code host is down, or at its limit, for hours. Nothing is
// edited again, also after a restart, and costs count once.
func TestProposedLater(t *testing.T) {
	down := &url.Error{Op: "Post", URL: "https://git.example", Err: errors.New("connection refused")}
	for name, tc := range map[string]struct {
		err   error
		lasts time.Duration
		want  Status
	}{
		"down for an hour": {down, time.Hour, Completed}, "down for a day": {down, 24 * time.Hour, Failed},
		"refused": {errors.New("want a token"), time.Minute, Failed},
	} {
		for _, restarted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				e, h, dir := &limited{began: time.Now()}, newHost(), t.TempDir()
				h.err = tc.err
				o := Options{Dir: dir, Editor: e, Host: h, Now: time.Now}
				s := open(t, o)
				id := create(t, s, "x")
				synctest.Wait()
				got, err := s.Get("p", id)
				if waits := errors.Is(tc.err, down); err != nil || (got.Status == Active) != waits || (got.RetryAt != nil) != waits ||
					got.Failure == "" || got.PRLink != nil {
					t.Errorf("%s: %+v %v", name, got, err)
				}
				if restarted {
					closeQueue(t, s)
					s = open(t, o)
				}
				time.Sleep(tc.lasts)
				h.mu.Lock()
				h.err = nil
				h.mu.Unlock()
				got = atRest(s)[0]
				if got.Status != tc.want || len(e.tasks) != 1 || *got.Cost != 0.5 || (got.PRLink != nil) != (tc.want == Completed) ||
					got.RetryAt != nil || (got.Failure == "") != (tc.want == Completed) {
					t.Errorf("%s, restarted %t: %+v after %d edits", name, restarted, got, len(e.tasks))
				}
				closeQueue(t, s)
			})
		}
	}
}

func TestJobsOfOthers(t *testing.T) {
	s := open(t, Options{})
	defer closeQueue(t, s)
	id := create(t, s, "x")
	for _, ask := range [][2]string{{"q", id}, {"p", "job_x"}, {"", ""}} {
		if _, err := s.Get(ask[0], ask[1]); !errors.Is(err, errNotFound) {
			t.Errorf("get %v: %v", ask, err)
		}
		if _, err := s.Message(ask[0], ask[1], "x"); !errors.Is(err, errNotFound) {
			t.Errorf("message %v: %v", ask, err)
		}
	}
}

// A job with many instructions does not keep the others waiting.
func TestJobsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{Editor: words{time.Minute}})
		first := create(t, s, "1")
		second := create(t, s, "a")
		for range 2 {
			send(t, s, first, "1")
			send(t, s, second, "a")
		}
		for want := range 6 {
			synctest.Wait()
			all := s.All()
			if got := all[0].Worked + all[1].Worked; got != want || all[0].Worked-all[1].Worked > 1 ||
				all[1].Worked > all[0].Worked {
				t.Errorf("after %d minutes: %d and %d", want, all[0].Worked, all[1].Worked)
			}
			time.Sleep(time.Minute)
		}
		closeQueue(t, s)
	})
}

func TestSubject(t *testing.T) {
	for prompt, want := range map[string]string{
		"x": "x", "\n\n  # Fix  the\ttypos \nmore": "Fix the typos", "---\n": "Agent job",
		"\x1b[31mred\x00\u202e": "[31mred", "###\nb": "b",
		strings.Repeat("ü", 72): strings.Repeat("ü", 72), strings.Repeat("ü", 73): strings.Repeat("ü", 71) +
			"…", "--amend": "--amend",
	} {
		if got := Subject(prompt); got != want {
			t.Errorf("%q: %q, want %q", prompt, got, want)
		}
	}
}
