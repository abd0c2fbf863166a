// Package outcome estimates what the readers of a page did after a pull request that
// changed the page was merged.
//
// It hides where the series come from (settled, verified day windows of the archive,
// [Load]) and how an effect and its interval are found ([Study]): docs/outcomes.md has the
// method in plain words. Its invariants: unique visitors are never added up over days or
// pages, all levels are means of daily visitors; a window that is provisional, unverified or
// missing is never used; nothing is drawn at random, so the same archive gives the same
// numbers; memory is bounded by the pages compared, not by those of the archive. It sends no
// request and changes nothing.
package outcome

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// What an estimate needs.
const (
	// Span is how many days before the merge, and how many after it, are used. The day of
	// the merge is in neither.
	Span = 28
	// LeastBefore, LeastAfter and LeastVisitors are the least days before and after, and the
	// least mean of daily visitors before.
	LeastBefore, LeastAfter, LeastVisitors = 14, 7, 20
)

// Merge is a merged pull request.
type Merge struct {
	// Project and Link name it: the project of the archive, and the pull request.
	Project string `json:"project"`
	Link    string `json:"link"`
	// At is when it was merged. Its UTC date counts.
	At time.Time `json:"merged_at,omitzero"`
	// Title is what people call the job. Problem says why there are no effects where there
	// are no pages: then it may not even be known whether it was merged, and At is zero.
	Title   string `json:"title,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Pages are the paths of the pages that it touched, as [Mapping.Paths] returns them.
	Pages []string `json:"pages"`
}

// Date is the UTC date of the merge.
func (m Merge) Date() analytics.Date { return analytics.DateOf(m.At) }

// Outcome is what became of the readers of the pages that a merge touched.
type Outcome struct {
	Merge
	// Effects has an effect for each page and audience: pages in the order of the merge,
	// of each page human before AI.
	Effects []Effect `json:"effects"`
	// Final: every day window that counts is there, so that the numbers stay as they are.
	Final bool `json:"final"`
}

// Method is how the expected level was found.
type Method string

// The methods.
const (
	// Control is a synthetic control: a weighted mean of untouched pages.
	Control Method = "synthetic control"
	// Level is the change of the level of the page itself, for projects with too few
	// untouched pages.
	Level Method = "level change"
)

// Verdict is the effect in one word.
type Verdict string

// The verdicts.
const (
	More    Verdict = "more readers"
	Fewer   Verdict = "fewer readers"
	Unclear Verdict = "no clear change"
	Lacking Verdict = "not enough data"
)

// Effect is the change of the daily visitors of one page after a merge. Where the verdict is
// [Lacking], only Path, Audience, the days, Reason and perhaps Before are set.
type Effect struct {
	Path     string             `json:"path"`
	Audience analytics.Audience `json:"audience"`
	Verdict  Verdict            `json:"verdict"`
	// Reason says why there is not enough data, or what limits the verdict; else it is empty.
	Reason string `json:"reason,omitempty"`
	Method Method `json:"method,omitempty"`
	// DaysBefore and DaysAfter count the day windows used.
	DaysBefore int `json:"days_before"`
	DaysAfter  int `json:"days_after"`
	// Before, Actual and Expected are means of daily visitors: before the merge, after it,
	// and after it had nothing been merged.
	Before   float64 `json:"before"`
	Actual   float64 `json:"actual"`
	Expected float64 `json:"expected"`
	// Change is Actual relative to Expected: 0.3 is 30 % more. Low to High is its 90 %
	// interval.
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// P is the share of comparable placebo merges with a change at least as strong.
	P float64 `json:"p"`
	// Placebos is how many untouched pages were treated as if they had been changed.
	Placebos int `json:"placebos"`
	// Days are the days of a chart, oldest first; those without a usable window are left out.
	Days []Day `json:"days,omitempty"`
}

// Day is one day of a page. Low to High is the 90 % band of the expected level, after the
// merge; before it, both are Expected.
type Day struct {
	Date     analytics.Date `json:"date"`
	Actual   float64        `json:"actual"`
	Expected float64        `json:"expected"`
	Low      float64        `json:"low"`
	High     float64        `json:"high"`
}

// Of returns the outcomes of merges, in their order. All merges of a project must be among
// them: a page that another one touched is no comparison. A window that cannot be read counts
// as missing; the outcomes come with its error. They are nil only where ctx has ended.
func Of(ctx context.Context, from sinks.Sink, merges []Merge) ([]Outcome, error) {
	out := make([]Outcome, len(merges))
	byDate := make([]int, len(merges))
	for i, m := range merges {
		out[i], byDate[i] = Outcome{Merge: m, Effects: []Effect{}}, i
	}
	slices.SortStableFunc(byDate, func(i, j int) int {
		return cmp.Or(cmp.Compare(merges[i].Project, merges[j].Project), cmp.Compare(merges[i].Date(), merges[j].Date()))
	})
	var errs []error
	for len(byDate) > 0 {
		n, project, end := 1, merges[byDate[0]].Project, merges[byDate[0]].Date()+Span
		for n < len(byDate) && merges[byDate[n]].Project == project && merges[byDate[n]].Date() <= end {
			n++
		}
		if err := estimate(ctx, from, out, byDate[:n]); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		byDate = byDate[n:]
	}
	return out, errors.Join(errs...)
}

// estimate fills in the outcomes named by which: merges of one project, by date, that lie no
// further apart than Span, so that they share what is read.
func estimate(ctx context.Context, from sinks.Sink, out []Outcome, which []int) error {
	var merges, all []Merge
	for _, i := range which {
		merges = append(merges, out[i].Merge)
	}
	for _, o := range out {
		if o.Project == merges[0].Project {
			all = append(all, o.Merge)
		}
	}
	p, err := load(ctx, from, merges)
	if p == nil {
		return err
	}
	for _, i := range which {
		s := newStudy(p, out[i].Merge, all)
		for _, path := range out[i].Pages {
			for _, a := range audiences {
				out[i].Effects = append(out[i].Effects, s.effect(path, a))
			}
		}
		judge(out[i].Effects)
		out[i].Final = s.final()
	}
	return err
}
