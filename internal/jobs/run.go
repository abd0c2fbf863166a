package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Folder is the folder of prompts (package prompts).
type Folder interface {
	// Scan reads the folder. A file counts if the previous scan saw it unchanged.
	Scan(previous *prompts.Scanned) (prompts.Scanned, error)
	// ScanOnce is the scan of a single pass: files that were not written lately count
	// at once, and for the others it waits.
	ScanOnce(ctx context.Context) (prompts.Scanned, error)
}

// Until says when Run ends, beside the end of its context.
type Until int

// The ends of Run.
const (
	// UntilStopped runs for ever: a folder or a journal that cannot be read is
	// reported, and read again later.
	UntilStopped Until = iota
	// UntilPassed ends after one pass, UntilIdle when nothing more happens by itself.
	// Both end with the first error.
	UntilPassed
	UntilIdle
)

// RunOptions are those of Run.
type RunOptions struct {
	Until Until
	// Report is called after each pass, and ends Run with its error.
	Report func(Report) error
}

// Report is what a pass came to.
type Report struct {
	Result Result
	// Folder is why the prompts cannot be read: jobs are followed, and nothing is
	// submitted. State is why the journal cannot be, or ErrNewState.
	Folder, State error
}

// failedPause is how soon a pass that failed is repeated, minPause the least time
// between two passes.
const (
	failedPause = 15 * time.Second
	minPause    = 10 * time.Millisecond
)

// Run makes pass after pass: after each scan of the folder, and when a job is to be
// read. It returns what all of them did, and the state of the queue after the last.
// What is under way at the end of ctx is finished, and nothing new begins; that is no
// error.
func (q *Queue) Run(ctx context.Context, folder Folder, o RunOptions) (total Result, err error) {
	if q.scans == nil {
		q.scans = new(scanner)
	}
	s := q.scans
	s.folder, s.until, s.interval, s.log = folder, o.Until, q.cfg.ScanInterval, q.cfg.Logger
	logged := ""
	for ctx.Err() == nil {
		var r Report
		if r.Folder = s.scan(ctx); r.Folder != nil && o.Until != UntilStopped {
			if ctx.Err() != nil {
				break // the stop cut the scan off
			}
			return total, r.Folder
		}
		r.Result, r.State = q.Pass(ctx, s.found)
		s.setUntil(r.Result.Planned)
		total = total.plus(r.Result)
		err := o.Report(r)
		switch {
		case o.Until != UntilStopped && r.State != nil:
			return total, errors.Join(r.State, err)
		case err != nil:
			return total, err
		case o.Until == UntilPassed, o.Until == UntilIdle && r.Result.Idle():
			return total, nil
		}
		if r.State == nil {
			logged = ""
		} else if text := r.State.Error(); text != logged {
			q.cfg.Logger.Error("prompt queue does not go on", "error", r.State)
			logged = text
		}
		wait := time.Until(s.next)
		switch next := r.Result.Next; {
		case r.State != nil && !errors.Is(r.State, ErrNewState):
			wait = max(wait, failedPause)
		case !next.IsZero():
			wait = min(wait, next.Sub(q.now()))
		}
		// A time in the past is one that the pass could not serve: no busy loop.
		_ = clock.Sleep(ctx, max(wait, minPause)) // the loop looks at ctx
	}
	return total, nil //nolint:nilerr // a stop is no error
}

// Continue lets the queue begin where another one has ended, over the same folder by the same
// rules: what that one has scanned counts.
func (q *Queue) Continue(former *Queue) { q.scans = former.scans }

// scanner scans the folder again and again.
type scanner struct {
	folder   Folder
	until    Until
	interval time.Duration
	log      *slog.Logger

	// last is the last scan, nil if it failed; at is when it was, next when it is due
	// again.
	last     *prompts.Scanned
	at, next time.Time
	// found are the prompts of the last scan; none if it failed.
	found  prompts.Scanned
	failed bool
	// logged are the findings of the last scan.
	logged map[string]bool
}

// scan reads the folder if that is due.
func (s *scanner) scan(ctx context.Context) (err error) {
	due := s.next
	if again := s.at.Add(prompts.Pause); s.until == UntilIdle && again.Before(due) {
		due = again // not to end while a new file is there
	}
	if s.last != nil && time.Now().Before(due) {
		return nil
	}
	var found prompts.Scanned
	if s.last == nil && s.until != UntilStopped {
		found, err = s.folder.ScanOnce(ctx)
	} else {
		found, err = s.folder.Scan(s.last)
	}
	s.at = time.Now()
	s.next = s.at.Add(s.interval)
	if err != nil {
		if !s.failed && s.until == UntilStopped {
			s.log.Error("prompt folder not read: nothing is submitted", "error", err)
		}
		s.last, s.found, s.failed = nil, prompts.Scanned{}, true
		return err
	}
	s.last, s.found, s.failed = &found, found, false
	if n := len(found.Changing); n > 0 {
		s.next = s.at.Add(min(prompts.Pause, s.interval))
		if s.until != UntilStopped {
			s.log.Info("prompt files have just changed", "files", n, "scanned_again", s.next.UTC().Format(time.RFC3339))
		}
	}
	findings := make(map[string]bool, len(found.Findings))
	for _, f := range found.Findings {
		if findings[f.String()] = true; !s.logged[f.String()] {
			s.log.Warn("prompt file is invalid", "finding", f.String())
		}
	}
	s.logged = findings
	return nil
}

// setUntil says in a plan when files that have just changed are scanned again.
func (s *scanner) setUntil(planned []Planned) {
	for i := range planned {
		if planned[i].Why == WhyChanging {
			planned[i].Until = s.next.UTC().Truncate(time.Millisecond)
		}
	}
}
