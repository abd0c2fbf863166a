package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
)

// Merge is a merged pull request.
type Merge struct {
	// Project and Link name it: the project of the archive, and the pull request.
	Project string `json:"project"`
	Link    string `json:"pr_link"`
	// At is when it was merged. Its UTC date counts.
	At time.Time `json:"merged_at,omitzero"`
	// Title is the display name of the job. If Pages is empty, Problem says why there are no
	// effects; even the merge may then be unconfirmed, and At is zero.
	Title   string `json:"title,omitempty"`
	Problem string `json:"problem,omitempty" api:"-"`
	// Pages are the paths of the pages that it touched, as outcome.Mapping returns them.
	Pages []string `json:"pages" api:"-"`
	// Cost is the cost of the jobs with this pull request.
	Cost Cost `json:"cost,omitzero" api:"-"`
}

// Date is the UTC date of the merge.
func (m Merge) Date() analytics.Date { return analytics.DateOf(m.At) }

// Outcomes are the outcomes of merged pull requests: the newest first, followed by pull requests whose state is
// unknown. Summaries has one for each project with an effect, or a known cost.
type Outcomes struct {
	// Since leaves out earlier merges; zero: none.
	Since     time.Time        `json:"since,omitzero"`
	Summaries []OutcomeSummary `json:"summaries"`
	Merges    []Outcome        `json:"outcomes"`
	// Redirects are the redirects that `docgauge redirects` saw, of paths that were missed in the days around their
	// beginning; the newest first.
	Redirects []Redirect `json:"redirects"`
}

// Redirect is what became of a missed path that is redirected, and of the readers of its target.
type Redirect struct {
	journal.Redirect
	// MissedBefore and MissedAfter are the mean daily requests of AI agents and other programs that missed the path,
	// in the 28 days before Since and after it; nil without a day window of the report agents. Days whose report has
	// only other paths, as many as a report can have, are left out. Redirected requests are not counted.
	MissedBefore *float64 `json:"missed_before"`
	MissedAfter  *float64 `json:"missed_after"`
	// Effects are the changes of the readers of the target: human before AI. Final is as in Outcome.
	Effects []Effect `json:"effects"`
	Final   bool     `json:"final"`
}

// Merge is the change that brought the rule, as a merge that touched the target.
func (r Redirect) Merge() Merge {
	return Merge{Project: r.Project, At: r.Since, Pages: []string{r.Target}}
}

// Wait is [Outcome.Wait] of the redirect.
func (r Redirect) Wait() string {
	return Outcome{Merge: r.Merge(), Effects: r.Effects, Final: r.Final}.Wait()
}

// MissedText says how often the path was missed.
func (r Redirect) MissedText() string {
	before, after := "an unknown number of", "an unknown number"
	if r.MissedBefore != nil {
		before = fmt.Sprintf("%.1f", *r.MissedBefore)
	}
	if r.MissedAfter != nil {
		after = fmt.Sprintf("%.1f", *r.MissedAfter)
	}
	return "missed " + before + " times a day before, " + after + " since"
}

// Of returns the outcomes of some projects.
func (o Outcomes) Of(projects ...string) Outcomes {
	other := func(project string) bool { return !slices.Contains(projects, project) }
	o.Summaries = slices.DeleteFunc(slices.Clone(o.Summaries), func(s OutcomeSummary) bool { return other(s.Project) })
	o.Merges = slices.DeleteFunc(slices.Clone(o.Merges), func(m Outcome) bool { return other(m.Project) })
	o.Redirects = slices.DeleteFunc(slices.Clone(o.Redirects), func(r Redirect) bool { return other(r.Project) })
	return o
}

// Rules are the rules that redirect missed paths.
func (o Outcomes) Rules() (all []journal.Redirect) {
	for _, r := range o.Redirects {
		all = append(all, r.Redirect)
	}
	return all
}

// OutcomeDays is how many days before and after a merge are used, without the day of the merge.
const OutcomeDays = 28

// Outcome is what became of the readers of the pages that a merge touched.
type Outcome struct {
	Merge
	// Effects has an effect for each page and audience: pages in the order of the merge,
	// of each page human before AI.
	Effects []Effect `json:"effects"`
	// Final: every day window that counts is in, so the numbers no longer change. Before that no
	// effect has a verdict.
	Final bool `json:"final"`
}

// OutcomeSummary is what the verdicts on all merges of a project say together.
type OutcomeSummary struct {
	Project string `json:"project"`
	// Merges and Comparisons have a verdict: More and Fewer of the comparisons are clear. ByChance
	// is how many of them would be clear if no merge had an effect: one in twenty merges, for each audience.
	Merges      int     `json:"merges"`
	Comparisons int     `json:"comparisons"`
	More        int     `json:"more"`
	Fewer       int     `json:"fewer"`
	ByChance    float64 `json:"by_chance"`
	// TooEarly and NotEnoughData count the other effects.
	TooEarly      int `json:"too_early"`
	NotEnoughData int `json:"not_enough_data"`
	// Merged are all merges of the project, and Cost is the cost of the jobs behind them.
	Merged int  `json:"merged"`
	Cost   Cost `json:"cost,omitzero"`
	// Mean is nil if the merges of the corrected comparisons have fewer than [MeanDates] dates.
	Mean *MeanChange `json:"mean,omitempty"`
}

// MeanDates is the minimum number of dates of merges of a [MeanChange].
const MeanDates = 3

// MeanChange is the mean change of the readers of a page after a merge, by a random effects model
// over the dates of merges. Low to High is its 90 % interval.
type MeanChange struct {
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// Comparisons are those that are corrected for how the page moved before ([Effect.Corrected]),
	// the others are left out. They were merged on so many Dates.
	Comparisons int `json:"comparisons"`
	Dates       int `json:"dates"`
}

// Method is how the expected level was found.
type Method string

// The methods.
const (
	// SyntheticControl is a synthetic control: a weighted mean of untouched pages, which no merged
	// agent pull request touched.
	SyntheticControl Method = "synthetic control"
	// LevelChange is the change of the level of the page itself, less the change of the other pages, for projects with
	// too few untouched pages.
	LevelChange Method = "level change"
)

// Verdict is the effect in one word.
type Verdict string

// The verdicts.
const (
	MoreReaders   Verdict = "more readers"
	FewerReaders  Verdict = "fewer readers"
	NoClearChange Verdict = "no clear change"
	TooEarly      Verdict = "too early"
	NotEnoughData Verdict = "not enough data"
)

// Effect is the change of the daily visitors of one page after a merge. Where the verdict is
// [NotEnoughData], only Path, Audience, the days, Reason and perhaps Before are set.
type Effect struct {
	Path     string             `json:"path"`
	Audience analytics.Audience `json:"audience"`
	Verdict  Verdict            `json:"verdict"`
	// Reason says why there is not enough data, or what limits the verdict; else it is empty.
	Reason string `json:"reason,omitempty"`
	Method Method `json:"method,omitempty"`
	// Corrected: Change is without what is usual for a page that moved as this one did between the
	// two months before the merge. A page chosen for a bad month recovers without any merge.
	Corrected bool `json:"corrected"`
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
	// P is the probability of a change at least as strong without an effect, by placebo merges.
	P float64 `json:"p"`
	// Placebos is how many untouched pages were treated as if they had been changed.
	Placebos int `json:"placebos"`
	// Days are the days of a chart, oldest first; those without a usable window are left out.
	Days []EffectDay `json:"days,omitempty" api:"-"`
}

// EffectDay is one day of a page. After the merge, Low to High is the 90 % band of the expected mean
// of all days after it, not of this day; before it, both are Expected.
type EffectDay struct {
	Date     analytics.Date `json:"date"`
	Actual   float64        `json:"actual"`
	Expected float64        `json:"expected"`
	Low      float64        `json:"low"`
	High     float64        `json:"high"`
}

// OutcomeCaution names the limits of the numbers. [Outcomes.Caution] has it where it belongs.
const OutcomeCaution = "An effect compares the mean of daily visitors after the merge with the mean that was " +
	"expected without it: from pages that no merged agent pull request touched, or, if those are too few, from " +
	"the page itself and how the others changed. It does not prove that the merge is the cause, or that readers are " +
	"better off; days and pages are never added up."

// clearCaution warns readers of many verdicts. [Outcomes.Caution] has it where it belongs.
const clearCaution = "Clear changes overstate: a change that stands out among many comparisons does so partly by " +
	"luck. Nine of ten intervals contain the true change over all rows, not over the clear ones; plan with the mean " +
	"change."

// Caution is the text below every list of them.
func (o Outcomes) Caution() string {
	if slices.ContainsFunc(o.Summaries, func(s OutcomeSummary) bool { return s.More+s.Fewer > 0 }) {
		return OutcomeCaution + " " + clearCaution
	}
	return OutcomeCaution
}
