package sandbox

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost/fake"
)

// merge is a merged pull request and the pages that it changed.
type merge struct {
	project string
	decided time.Time      // when it happened
	date    analytics.Date // UTC day of its date, which may be earlier
	pages   []uint32
}

// merges are the merged pull requests of a sandbox.
type merges struct {
	pulls       *pullStore
	pageNumbers func() map[string]uint32 // of the synthetic site

	mu     sync.Mutex
	merged map[int]merge // by number of the pull request
}

// reactions returns the dates from which on pages of a project have the effect, for the merges
// so far and the pages that changed before end.
func (s *merges) reactions(project string, end analytics.Date) map[uint32]analytics.Date {
	s.mu.Lock()
	for _, pr := range s.pulls.Pulls() {
		if _, known := s.merged[pr.Number]; known || pr.State() != fake.Merged {
			continue // a merged pull request never changes
		}
		var pages []uint32
		for _, f := range pr.Changes().Files {
			for _, name := range []string{f.Name, f.Former} {
				if page, ok := pageOfFile(name, s.pageNumbers()); ok {
					pages = append(pages, page)
				}
			}
		}
		e := pr.Last(fake.Merge)
		s.merged[pr.Number] = merge{pr.Project, e.At.AddDate(0, 0, e.DaysAgo), analytics.DateOf(e.At), pages}
	}
	byTime := slices.SortedFunc(maps.Values(s.merged), func(a, b merge) int { return a.decided.Compare(b.decided) })
	s.mu.Unlock()
	since := map[uint32]analytics.Date{}
	for _, m := range byTime {
		if m.project != project {
			continue
		}
		for _, page := range m.pages {
			if _, reacted := since[page]; !reacted {
				since[page] = m.date
			}
		}
	}
	maps.DeleteFunc(since, func(_ uint32, from analytics.Date) bool { return from >= end })
	return since
}
