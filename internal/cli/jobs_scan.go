package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/prompts"
)

// lookout looks at the prompt folder again and again: the first look takes files at
// once that have not been written lately, and for the others what counts is what
// two looks saw that are at least prompts.Pause apart.
type lookout struct {
	folder *prompts.Folder
	log    *slog.Logger
	last   *prompts.Scanned
	at     time.Time // of the last look
	said   map[string]bool
}

// scan returns the prompts as they are, or as they were if that is not long ago.
func (l *lookout) scan(ctx context.Context) (found prompts.Scanned, err error) {
	switch {
	case l.last == nil:
		found, err = l.folder.ScanOnce(ctx)
	case time.Since(l.at) < prompts.Pause:
		return *l.last, nil
	default:
		found, err = l.folder.Scan(l.last)
	}
	if err != nil {
		return prompts.Scanned{}, err
	}
	l.last, l.at = &found, time.Now()
	l.complain(found)
	return found, nil
}

// complain logs each finding once.
func (l *lookout) complain(found prompts.Scanned) {
	now := make(map[string]bool, len(found.Findings))
	for _, f := range found.Findings {
		now[f.String()] = true
		if !l.said[f.String()] {
			l.log.Warn("prompt file is invalid", "finding", f.String())
		}
	}
	l.said = now
	if files, again := l.settling(); files > 0 {
		l.log.Info("prompt files have just changed", "files", files, "looked_at_again", again.UTC().Format(time.RFC3339))
	}
}

// settling reports how many files have just changed, and when they are looked at
// again.
func (l *lookout) settling() (files int, again time.Time) {
	if l.last == nil || len(l.last.Changing) == 0 {
		return 0, time.Time{}
	}
	return len(l.last.Changing), l.at.Add(prompts.Pause)
}

// until says in a plan when files that have just changed are looked at again.
func (l *lookout) until(planned []jobs.Planned) {
	_, again := l.settling()
	for i := range planned {
		if planned[i].Why == jobs.WhySettling {
			planned[i].Until = again.UTC().Truncate(time.Millisecond)
		}
	}
}

// have is "1 file has" or "2 files have".
func have(n int, one string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s has", one)
	}
	return plural(n, one) + " have"
}
