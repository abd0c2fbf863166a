package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/prompts"
)

// promptFolder is the folder of prompts (package prompts).
type promptFolder interface {
	// Scan reads the folder. A file counts if the previous scan saw it unchanged.
	Scan(previous *prompts.Scanned) (prompts.Scanned, error)
	// ScanOnce is the scan of a single pass: files that were not written lately count
	// at once, and for the others it waits.
	ScanOnce(ctx context.Context) (prompts.Scanned, error)
}

// Until is the condition that ends Run, besides the end of its context.
type Until int

// The ends of Run.
const (
	// UntilStopped runs for ever: a folder or a journal that cannot be read is
	// reported, and read again later.
	UntilStopped Until = iota
	// UntilPassed ends after one pass, UntilIdle when nothing more happens without a person.
	// Both end with the first error.
	UntilPassed
	UntilIdle
)

// Report is the result of a pass.
type Report struct {
	Result Result
	// Folder is why the prompts cannot be read: jobs are followed, and nothing is
	// submitted. State is why the journal cannot be, or ErrNewState.
	Folder, State error
}

const (
	scanInterval = 15 * time.Second
	// failedPause is how soon a pass that failed is repeated, minPause the least time
	// between two passes.
	failedPause = 15 * time.Second
	minPause    = 10 * time.Millisecond
)

// Run makes pass after pass: after each scan of the folder, and when a job is to be
// read. It calls report after each, and ends with its error. It returns the counts of all
// passes, and the state of the queue after the last. At the end of ctx a call under way is
// finished, and nothing new begins; that is not an error.
func (q *Queue) Run(
	ctx context.Context, folder promptFolder, until Until, report func(Report) error,
) (total Result, err error) {
	s := &q.scanner
	var last clock.LastError
	for ctx.Err() == nil {
		var r Report
		if r.Folder = s.scan(ctx, folder, until, q.opt.Logger); r.Folder != nil && until != UntilStopped {
			if ctx.Err() != nil {
				break // the stop cut the scan off
			}
			return total, r.Folder
		}
		r.Result, r.State = q.pass(ctx, s.found)
		for i := range r.Result.Planned {
			if p := &r.Result.Planned[i]; p.Why == WhyChanging {
				p.Until = s.next.UTC().Truncate(time.Millisecond)
			}
		}
		total = total.plus(r.Result)
		err := report(r)
		switch {
		case until != UntilStopped && r.State != nil:
			return total, errors.Join(r.State, err)
		case err != nil:
			return total, err
		case until == UntilPassed, until == UntilIdle && r.Result.isIdle():
			return total, nil
		}
		if last.IsNew(r.State) {
			q.opt.Logger.Error("prompt queue stopped", "error", r.State)
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
	return total, nil //nolint:nilerr // a stop is not an error
}

// Continue lets the queue begin where another one has ended, over the same folder by the same
// rules: the scans of that one count.
func (q *Queue) Continue(former *Queue) { q.scanner = former.scanner }

// scanner scans the folder again and again.
type scanner struct {
	// found are the prompts of the last scan. It is valid unless that failed, and zero then.
	found prompts.Scanned
	valid bool
	// at is when the last scan was, next when another one is due.
	at, next time.Time
	// logged are the findings of the last scan.
	logged map[string]bool
}

// scan reads the folder if that is due.
func (s *scanner) scan(ctx context.Context, folder promptFolder, until Until, log *slog.Logger) (err error) {
	due := s.next
	if again := s.at.Add(prompts.Pause); until == UntilIdle && again.Before(due) {
		due = again // not to end while a new file is there
	}
	if s.valid && time.Now().Before(due) {
		return nil
	}
	var found prompts.Scanned
	switch {
	case s.valid:
		found, err = folder.Scan(&s.found)
	case until == UntilStopped:
		found, err = folder.Scan(nil)
	default:
		found, err = folder.ScanOnce(ctx)
	}
	if err != nil && until == UntilStopped && (s.valid || s.at.IsZero()) {
		log.Error("prompt folder not read: nothing is submitted", "error", err)
	}
	s.found, s.valid, s.at = found, err == nil, time.Now()
	s.next = s.at.Add(scanInterval)
	if err != nil {
		s.found = prompts.Scanned{}
		return err
	}
	if n := len(found.Changing); n > 0 {
		s.next = s.at.Add(prompts.Pause)
		if until != UntilStopped {
			log.Info("prompt files have just changed", "files", n, "scanned_again", s.next.UTC().Format(time.RFC3339))
		}
	}
	findings := make(map[string]bool, len(found.Findings))
	for _, f := range found.Findings {
		if findings[f.String()] = true; !s.logged[f.String()] {
			log.Warn("prompt file is invalid", "finding", f.String())
		}
	}
	s.logged = findings
	return nil
}
