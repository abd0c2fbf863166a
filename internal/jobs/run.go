package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/prompts"
)

// Folder is where the prompts are (package prompts).
type Folder interface {
	// Scan reads the folder; what counts is what the scan before saw too.
	Scan(previous *prompts.Scanned) (prompts.Scanned, error)
}

// Report is what Run tells after each pass.
type Report struct {
	Result
	// Folder is why the prompts cannot be read, State why the journal cannot, or
	// ErrNewState; nil where they can.
	Folder, State error
}

const (
	// settleAfter is between two looks at a folder in which something has just changed.
	settleAfter = prompts.Pause
	// restless is how soon a pass that failed is tried again.
	restless = 15 * time.Second
)

// Run makes pass after pass until ctx ends: after each look at the folder, and when
// a job is to be read. It tells of each. What is under way at the end of ctx is
// finished, nothing new begins. While the folder cannot be read jobs are followed
// and nothing is submitted.
func (q *Queue) Run(ctx context.Context, folder Folder, tell func(Report)) {
	r := &runner{Queue: q, folder: folder}
	for ctx.Err() == nil {
		r.scan()
		var report Report
		report.Result, report.State = q.Pass(ctx, r.found)
		report.Folder = r.failed
		r.complain(report.State)
		tell(report)
		sleep(ctx, r.wait(report))
	}
}

type runner struct {
	*Queue
	folder Folder
	last   *prompts.Scanned // the last scan; nil where it failed
	// found are the prompts as of the last scan; none where it failed.
	found   prompts.Scanned
	failed  error
	scanned time.Time
	said    string
}

// scan looks at the folder where it is time to.
func (r *runner) scan() {
	if since := time.Since(r.scanned); r.last != nil && since < r.pause() {
		return
	}
	found, err := r.folder.Scan(r.last)
	r.scanned = time.Now()
	if err != nil {
		if r.failed == nil {
			r.cfg.Logger.Error("prompt folder not read: nothing is submitted", "error", err)
		}
		r.last, r.found, r.failed = nil, prompts.Scanned{}, err
		return
	}
	r.last, r.found, r.failed = &found, found, nil
}

// pause is until the next look at the folder.
func (r *runner) pause() time.Duration {
	if len(r.found.Changing) > 0 {
		return min(settleAfter, r.cfg.ScanInterval)
	}
	return r.cfg.ScanInterval
}

// complain logs an error once.
func (r *runner) complain(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != r.said {
		r.cfg.Logger.Error("prompt queue does not go on", "error", err)
	}
	r.said = text
}

// wait is until the next pass.
func (r *runner) wait(report Report) time.Duration {
	wait := r.pause() - time.Since(r.scanned)
	if r.failed != nil {
		wait = r.cfg.ScanInterval
	}
	switch {
	case report.State != nil && !errors.Is(report.State, ErrNewState):
		return max(wait, restless)
	case !report.Next.IsZero():
		wait = min(wait, report.Next.Sub(r.now()))
	}
	// A time in the past is one that the pass could not serve: not in a loop.
	return max(wait, 10*time.Millisecond)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
