package history_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/exporter/history"
	"github.com/docgauge/docgauge/internal/analytics"
)

// shelf is an archive in memory.
type shelf struct {
	windows []analytics.Revision
	rows    func(analytics.Key) iter.Seq2[analytics.Row, error]
	damaged []error
	later   map[analytics.Key]analytics.Revision // read since they were listed
	open    atomic.Int32                         // windows whose use has not ended
}

func (s *shelf) Revisions(context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		for _, err := range s.damaged {
			if !yield(analytics.Revision{}, err) {
				return
			}
		}
		for _, rev := range s.windows {
			if !yield(rev, nil) {
				return
			}
		}
	}
}

func (s *shelf) Window(_ context.Context, rev analytics.Revision) (history.Window, func() error, error) {
	if rev.Number == gone {
		return nil, nil, errors.New("is gone")
	}
	if later, ok := s.later[rev.Key]; ok {
		rev = later
	}
	s.open.Add(1)
	return book{rev, s.rows(rev.Key)}, func() error { s.open.Add(-1); return nil }, nil
}

// gone is the number of a reading that cannot be opened.
const gone = -1

type book struct {
	rev  analytics.Revision
	rows iter.Seq2[analytics.Row, error]
}

func (b book) Revision() analytics.Revision { return b.rev }

func (b book) Rows() iter.Seq2[analytics.Record, error] {
	if b.rev.Report == analytics.AgentsReport {
		return analytics.Records(rowsOf(agentsOf(b.rev.Key)...))
	}
	return analytics.Records(b.rows)
}

// agentsOf are the rows of a window of agents, for the site and for one path: 2 rows each, or 42 each in some
// windows, several of them with equal readers.
func agentsOf(k analytics.Key) (all []analytics.AgentRow) {
	for _, path := range []string{"", "/a"} {
		for n := range 2 + 40*int64(k.To%9/8) {
			all = append(all, analytics.AgentRow{Path: path, Agent: fmt.Sprintf("agent %02d", n), Class: "coding",
				Audience: analytics.AI, Found: true, Visitors: (n + int64(k.To)) % 23, Requests: 100 + n})
		}
	}
	return all
}

func rowsOf[R any](all ...R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, row := range all {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// reading is window [from, to) with numbers that are made from its dates.
func reading(project string, g analytics.Granularity, from, to analytics.Date) analytics.Revision {
	return analytics.Revision{
		Key:      analytics.Key{Project: project, Granularity: g, Window: analytics.Window{From: from, To: to}},
		Number:   1,
		Verified: true,
		Settled:  to%2 == 0,
		Totals:   analytics.Totals{Human: int64(to), AI: int64(to) + 1, Total: int64(to) + 2},
		Rows:     int64(to) + 3,
	}
}

func date(text string) analytics.Date {
	d, err := analytics.ParseDate(text)
	if err != nil {
		panic(err)
	}
	return d
}

func between(from, to string, step time.Duration) history.Options {
	return history.Options{From: date(from).Time(), To: date(to).Time(), Step: step}
}

// path is the path of the nth page.
func path(n int) string { return fmt.Sprintf("/guides/%04d", n) }
