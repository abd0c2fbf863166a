package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// ctxt is short.
type ctxt = context.Context

// shelf is a folder whose files settle at the second look.
type shelf struct {
	prompts []prompts.Prompt
	err     error
	scans   int
}

func (s *shelf) Scan(previous *prompts.Scanned) (prompts.Scanned, error) {
	s.scans++
	if s.err != nil {
		return prompts.Scanned{}, s.err
	}
	if previous == nil {
		var found prompts.Scanned
		for _, p := range s.prompts {
			found.Changing = append(found.Changing, p.Path)
		}
		return found, nil
	}
	return prompts.Scanned{Prompts: s.prompts}, nil
}

// running is a world in the time of a bubble.
func running(t *testing.T) (*world, *shelf, *bytes.Buffer) {
	w := newWorld(t)
	w.service.now = time.Now
	w.cfg.Now = time.Now
	var log bytes.Buffer
	w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"one"}})
	w.prompt(prompts.Prompt{ID: "b"})
	return w, &shelf{prompts: w.folder}, &log
}

func (w *world) newQueue() *Queue {
	w.on = &power{world: w, calls: map[string]int{}}
	return New(w.cfg, wire{w.on}, wiredJournal{w.on})
}

// runUntil runs the queue until there is enough.
func runUntil(t *testing.T, q *Queue, folder Folder, enough func(Report) bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q.Run(ctx, folder, func(r Report) {
		if enough(r) {
			cancel()
		}
	})
}

// TestRunUntilSettled: until all have ended.
func TestRunUntilSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, folder, log := running(t)
		began := time.Now()
		runUntil(t, w.newQueue(), folder, func(r Report) bool {
			if r.Folder != nil || r.State != nil {
				t.Errorf("%v, %v", r.Folder, r.State)
			}
			return r.Settled()
		})
		w.has("a", journal.Completed)
		w.has("b", journal.Completed)
		if took := time.Since(began); took < 2*turn || took > 2*turn+6*time.Minute {
			t.Errorf("it took %v", took)
		}
		for _, line := range []string{"agent job sent", "agent job ended"} {
			if n := strings.Count(log.String(), line); n < 2 {
				t.Errorf("%q is logged %d times", line, n)
			}
		}
		if strings.Contains(log.String(), "do a") {
			t.Error("the prompt is in the log")
		}
	})
}

// TestFirstPromptSoon: not after a whole interval of scans.
func TestFirstPromptSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, folder, _ := running(t)
		w.cfg.ScanInterval = time.Hour
		began := time.Now()
		runUntil(t, w.newQueue(), folder, func(Report) bool { return len(w.service.jobs) > 0 })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the first is sent after %v", took)
		}
	})
}

// TestFolderGoesAndComes: without it jobs are followed and nothing is submitted.
func TestFolderGoesAndComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, folder, log := running(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began, problems := time.Now(), 0
		w.newQueue().Run(ctx, folder, func(r Report) {
			switch since := time.Since(began); {
			case since < 10*time.Second:
			case since < 20*time.Minute:
				folder.err = errors.New("prompts: the folder is gone")
				if r.Folder != nil {
					problems++
				}
			case since < 40*time.Minute && folder.err != nil:
				w.has("a", journal.Completed) // its follow-up went too: it is in the journal
				folder.err = nil
				folder.prompts = append(folder.prompts, prompts.Prompt{ID: "c", Path: "c.md", Project: "prj_a", Body: "do c"})
			}
		})
		w.has("c", journal.Completed)
		if n := strings.Count(log.String(), "prompt folder not read"); n != 1 || problems < 5 {
			t.Errorf("logged %d times, reported %d times", n, problems)
		}
	})
}

// TestEndOfTheProcess: a POST under way is waited for, and nothing new begins.
func TestEndOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, folder, _ := running(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.service.down = func(call, _ string) error {
			if call == callCreate {
				cancel()
				time.Sleep(30 * time.Second)
			}
			return nil
		}
		w.newQueue().Run(ctx, folder, func(Report) {})
		w.has("a", journal.Active)
		w.none("b")
	})
}

// TestEndBeforeTheConnection: what was not sent because of the end waits for the
// next process, without a penalty.
func TestEndBeforeTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, folder, _ := running(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.service.down = func(call, _ string) error {
			cancel()
			return &docsapi.Error{Outcome: docsapi.Transient, Err: errors.Join(docsapi.ErrNotSent, context.Canceled)}
		}
		w.newQueue().Run(ctx, folder, func(Report) {})
		if job := w.has("a", journal.Pending); job.Tries != 0 || !job.Next.IsZero() || !job.Blocked.IsZero() || !strings.Contains(job.Reason, "stopped before it was sent") {
			t.Errorf("%+v", job)
		}
	})
}

// TestEndWhileReading leaves the job as it was.
func TestEndWhileReading(t *testing.T) {
	w := one(t, prompts.Prompt{})
	before := w.job("a")
	w.clock = w.clock.Add(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	w.service.down = func(string, string) error {
		cancel()
		return context.Canceled
	}
	if _, err := w.queue.Pass(ctx, w.found()); err != nil {
		t.Fatal(err)
	}
	if job := w.job("a"); job.Version != before.Version {
		t.Errorf("%+v", job)
	}
}

// TestFullDisk: no POST without an intent, no noise, and all goes on when there is room.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, folder, log := running(t)
		var full atomic.Bool
		full.Store(true)
		w.faults = func(call string, _ int) fault {
			if full.Load() && call == callApply {
				return requestLost
			}
			return noFault
		}
		began := time.Now()
		runUntil(t, w.newQueue(), folder, func(r Report) bool {
			if full.Load() && time.Since(began) > time.Hour {
				if len(w.service.jobs) > 0 || r.State == nil {
					t.Errorf("%d jobs, %v", len(w.service.jobs), r.State)
				}
				full.Store(false)
			}
			return !full.Load() && r.Settled() && r.State == nil
		})
		w.has("a", journal.Completed)
		if n := strings.Count(log.String(), "prompt queue does not go on"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

// TestStateIsLost: what is written to a file that is no longer there is not durable.
func TestStateIsLost(t *testing.T) {
	w := manyPrompts(t)
	w.memory.lost = errors.New("the state was removed")
	if _, err := w.pass(); !errors.Is(err, w.memory.lost) || len(w.service.jobs) > 0 {
		t.Errorf("%v, %d jobs", err, len(w.service.jobs))
	}
}

// TestChanged hears of each change.
func TestChanged(t *testing.T) {
	w := newWorld(t)
	n := 0
	w.cfg.Changed = func() { n++ }
	w.prompt(prompts.Prompt{ID: "a"})
	w.passes()
	if n != 3 { // the state, the intent, its outcome
		t.Errorf("told %d times", n)
	}
}
