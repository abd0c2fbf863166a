package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// fakeFolder is a folder whose files count from the second scan on.
type fakeFolder struct {
	prompts []prompts.Prompt
	err     error
	scans   int
}

func (s *fakeFolder) Scan(previous *prompts.Scanned) (prompts.Scanned, error) {
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

// ScanOnce takes the files at once.
func (s *fakeFolder) ScanOnce(context.Context) (prompts.Scanned, error) {
	return s.Scan(&prompts.Scanned{})
}

// bubble runs a test with a world in the time of a synctest bubble.
func bubble(t *testing.T, run func(w *world, folder *fakeFolder, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service.now = time.Now
		w.opt.Now = time.Now
		var log bytes.Buffer
		w.opt.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"one"}})
		w.prompt(prompts.Prompt{ID: "b"})
		run(w, &fakeFolder{prompts: w.folder}, &log)
	})
}

// newQueue is the queue of another process.
func (w *world) newQueue() *Queue {
	w.on = &process{w, faults.NewProcess(&w.faults, nil)}
	return New(w.opt, wire{w.on}, wiredJournal{w.on})
}

// run runs a queue until ctx ends, or report says that it is enough.
func (w *world) run(ctx context.Context, q *Queue, folder promptFolder, report func(Report) (enough bool)) {
	w.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := q.Run(ctx, folder, UntilStopped, func(r Report) error {
		if report(r) {
			cancel()
		}
		return nil
	})
	if err != nil {
		w.Errorf("%v", err)
	}
}

func forever(Report) bool { return false }

// TestRunEnds: a run that is not for ever ends after a pass, when it is idle, or with
// the first error.
func TestRunEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		until Until
		spoil func(w *world, folder *fakeFolder)
		want  error
		state journal.State // of a
	}{
		"after a pass":      {UntilPassed, func(*world, *fakeFolder) {}, nil, journal.Active},
		"when it is idle":   {UntilIdle, func(*world, *fakeFolder) {}, nil, journal.Completed},
		"without a folder":  {UntilIdle, func(_ *world, folder *fakeFolder) { folder.err = broken }, broken, ""},
		"without a journal": {UntilIdle, func(w *world, _ *fakeFolder) { w.memory.lost = broken }, broken, ""},
		"with a state without a job": {UntilIdle, func(w *world, _ *fakeFolder) {
			w.opt.OnNewState = Refuse
		}, ErrNewState, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world, folder *fakeFolder, log *bytes.Buffer) {
				tc.spoil(w, folder)
				began := time.Now()
				var reported Result
				report := func(r Report) error {
					reported = reported.plus(r.Result)
					return nil
				}
				result, err := w.newQueue().Run(w.Context(), folder, tc.until, report)
				if !errors.Is(err, tc.want) || result.Created != reported.Created || result.Ended != reported.Ended {
					t.Errorf("%v; %+v, reported were %+v", err, result, reported)
				}
				if tc.state == "" {
					w.none("a")
					return
				}
				w.has("a", tc.state)
				w.has("b", tc.state)
				took := time.Since(began)
				if tc.state == journal.Completed && (took < 2*turn || took > 2*turn+6*time.Minute) {
					t.Errorf("it took %v", took)
				}
				ended := strings.Count(log.String(), "agent job ended")
				if !strings.Contains(log.String(), "agent job sent") || ended != result.Ended ||
					strings.Contains(log.String(), "do a") {
					t.Error("log: ", log)
				}
			})
		})
	}
	bubble(t, func(w *world, folder *fakeFolder, _ *bytes.Buffer) {
		report := func(Report) error { return broken }
		if _, err := w.newQueue().Run(w.Context(), folder, UntilStopped, report); !errors.Is(err, broken) {
			t.Errorf("a report that fails: %v", err)
		}
	})
}

// TestNewFileBeforeTheEnd: a run that could end looks for files that were added since
// the last scan.
func TestNewFileBeforeTheEnd(t *testing.T) {
	bubble(t, func(w *world, _ *fakeFolder, _ *bytes.Buffer) {
		w.opt.PollInterval = 16 * time.Second // reads after 16, 40, 76 and 130 s; the last scan is at 121 s
		folder := &fakeFolder{prompts: []prompts.Prompt{{ID: "b", Path: "b.md", Project: "prj_a", Body: "do b"}}}
		began := time.Now()
		report := func(Report) error {
			if time.Since(began) >= turn && len(folder.prompts) == 1 {
				folder.prompts = append(folder.prompts, w.prompt(prompts.Prompt{ID: "c"}))
			}
			return nil
		}
		if _, err := w.newQueue().Run(w.Context(), folder, UntilIdle, report); err != nil {
			t.Error(err)
		}
		w.has("b", journal.Completed)
		w.has("c", journal.Completed)
	})
}

// TestFirstPromptSoon: the first prompt does not wait for the interval between scans.
func TestFirstPromptSoon(t *testing.T) {
	bubble(t, func(w *world, folder *fakeFolder, _ *bytes.Buffer) {
		began := time.Now()
		w.run(w.Context(), w.newQueue(), folder, func(Report) bool { return len(w.service.jobs) > 0 })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the first is sent after %v", took)
		}
	})
}

// TestFolderGoesAndComes: without the folder jobs are followed and nothing is submitted.
func TestFolderGoesAndComes(t *testing.T) {
	bubble(t, func(w *world, folder *fakeFolder, log *bytes.Buffer) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		began, problems := time.Now(), 0
		w.run(ctx, w.newQueue(), folder, func(r Report) bool {
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
				folder.prompts = append(folder.prompts, w.prompt(prompts.Prompt{ID: "c"}))
			}
			return false
		})
		w.has("c", journal.Completed)
		if n := strings.Count(log.String(), "prompt folder not read"); n != 1 || problems < 5 {
			t.Errorf("logged %d times, reported %d times", n, problems)
		}
	})
}

// TestEndOfTheProcess: a POST under way is waited for, and nothing new begins.
func TestEndOfTheProcess(t *testing.T) {
	bubble(t, func(w *world, folder *fakeFolder, _ *bytes.Buffer) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		w.service.down = func(call, _ string) error {
			if call == callCreate {
				cancel()
				time.Sleep(30 * time.Second)
			}
			return nil
		}
		w.run(ctx, w.newQueue(), folder, forever)
		w.has("a", journal.Active)
		w.none("b")
	})
}

// TestEndBeforeTheConnection: a prompt that was not sent because of the stop is sent by the next
// process at once.
func TestEndBeforeTheConnection(t *testing.T) {
	bubble(t, func(w *world, folder *fakeFolder, _ *bytes.Buffer) {
		ctx, cancel := context.WithCancel(w.Context())
		w.service.down = func(call, _ string) error {
			cancel()
			return &docsapi.Error{Outcome: docsapi.Transient, Err: errors.Join(docsapi.ErrNotSent, context.Canceled)}
		}
		w.run(ctx, w.newQueue(), folder, forever)
		job := w.has("a", journal.Pending)
		w.says(job.Reason, "stopped before it was sent")
		if job.Refusals != 0 || !job.Next.IsZero() || !job.Blocked.IsZero() {
			t.Errorf("%+v", job)
		}
	})
}

// TestEndWithoutAnAnswer: a create whose answer does not come ends within the 30 s of a stop,
// whatever DOCGAUGE_TIMEOUT is. Before Run returns the job is unknown, and its reason says why.
func TestEndWithoutAnAnswer(t *testing.T) {
	bubble(t, func(w *world, folder *fakeFolder, _ *bytes.Buffer) {
		ctx, stop := context.WithCancel(w.Context())
		var stopped time.Time
		client, err := docsapi.New(docsapi.ClientOptions{
			BaseURL: "https://api.example.com", APIKey: docsapi.StaticKey("adm_secret"), Timeout: 10 * time.Minute,
			WriteTransport: func(string) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					trace := httptrace.ContextClientTrace(r.Context())
					trace.GetConn("")
					trace.GotConn(httptrace.GotConnInfo{})
					time.AfterFunc(time.Minute, func() { stopped = time.Now(); stop() })
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.run(ctx, New(w.opt, client, w.journal), folder, forever)
		if took := time.Since(stopped); took > 25*time.Second {
			t.Errorf("it ended %v after the stop", took)
		}
		if job := w.has("a", journal.Unknown); !strings.Contains(job.Reason, "docgauge was stopped") || !job.InDoubt {
			t.Errorf("%+v", job)
		}
		w.none("b")
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEndWhileReading: the job stays unchanged.
func TestEndWhileReading(t *testing.T) {
	w := one(t, prompts.Prompt{})
	before := w.job("a")
	w.clock = w.clock.Add(time.Minute)
	ctx, cancel := context.WithCancel(w.Context())
	w.service.down = func(string, string) error {
		cancel()
		return context.Canceled
	}
	if _, err := w.queue.pass(ctx, w.found()); err != nil {
		t.Fatal(err)
	}
	if job := w.job("a"); job.Version != before.Version {
		t.Errorf("%+v", job)
	}
}

// TestFullDisk: nothing is sent without an intent, the error is logged once, and the queue
// continues when there is room.
func TestFullDisk(t *testing.T) {
	bubble(t, func(w *world, folder *fakeFolder, log *bytes.Buffer) {
		full := true
		w.faults = func(call string, _ int) faults.Fault {
			if full && call == callApply {
				return faults.RequestLost
			}
			return faults.None
		}
		began := time.Now()
		w.run(w.Context(), w.newQueue(), folder, func(r Report) bool {
			if full && time.Since(began) > time.Hour {
				if len(w.service.jobs) > 0 || r.State == nil {
					t.Errorf("%d jobs, %v", len(w.service.jobs), r.State)
				}
				full = false
			}
			return !full && r.Result.isIdle() && r.State == nil
		})
		w.has("a", journal.Completed)
		if n := strings.Count(log.String(), "prompt queue stopped"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

// TestChanged: Options.Changed is called after each change.
func TestChanged(t *testing.T) {
	w := newWorld(t)
	n := 0
	w.opt.Changed = func() { n++ }
	w.prompt(prompts.Prompt{ID: "a"})
	w.passes()
	if n != 3 { // the state, the intent, its outcome
		t.Errorf("told %d times", n)
	}
}

// TestContinue: a queue that continues where another one has ended knows its prompts at once,
// and scans the folder when that one would have.
func TestContinue(t *testing.T) {
	bubble(t, func(w *world, folder *fakeFolder, _ *bytes.Buffer) {
		time.Sleep(7 * time.Second)
		w.opt.OnNewState = Skip
		former := w.newQueue()
		w.run(w.Context(), former, folder, func(r Report) bool { return len(r.Result.Planned) == 2 })
		scans, q := folder.scans, w.newQueue()
		q.Continue(former)
		passes := 0
		w.run(w.Context(), q, folder, func(r Report) bool {
			if passes++; len(r.Result.Planned) != 2 {
				t.Errorf("pass %d knows %d prompts", passes, len(r.Result.Planned))
			}
			return passes == 1
		})
		if folder.scans != scans {
			t.Errorf("%d scans too early", folder.scans-scans)
		}
	})
}

// readCounter counts how often all jobs are read.
type readCounter struct {
	jobStore
	reads int
}

func (c *readCounter) Jobs(ctx context.Context) ([]journal.Job, error) {
	c.reads++
	return c.jobStore.Jobs(ctx)
}

// TestLargeFolder: a job that is created from a large folder takes no more work than one from a small folder.
func TestLargeFolder(t *testing.T) {
	work := func(n int) (reads int, bytes uint64) {
		w := newWorld(t)
		w.opt.JobCost, w.opt.MaxCostPerDay, w.opt.MaxPerDay, w.opt.MaxActive = 1, 1e6, 1e6, 1e6
		for i := range n {
			id := fmt.Sprintf("p%05d", i)
			w.folder = append(w.folder, prompts.Prompt{ID: id, Path: id + ".md", Project: "prj_a", Body: "x", Digest: id})
		}
		counted := &readCounter{jobStore: w.journal}
		w.journal = counted
		if got := w.passes(); got.Created != n {
			t.Fatalf("%d of %d created", got.Created, n)
		}
		empty := &queueState{now: w.clock, queue: journal.Queue{Adopted: true}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		empty.plan(w.opt, w.found(), nil)
		runtime.ReadMemStats(&after)
		return counted.reads, (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	reads, bytes := work(40)
	if most, each := work(800); most != reads || each > 3*bytes {
		t.Errorf("40 prompts: all jobs were read %d times, a plan took %d bytes for each; 800 prompts: %d and %d",
			reads, bytes, most, each)
	}
}
