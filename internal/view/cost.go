package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
)

// Cost is what jobs cost together. Unknown costs count as 0, or as the estimate of DOCGAUGE_JOB_COST, and are
// counted: see Basis.
type Cost struct {
	// Reported is what the service says, by unit. Units are never added up.
	Reported []Amount `json:"reported"`
	// Estimate is for what the service does not say, in the unit of DOCGAUGE_JOB_COST.
	Estimate float64 `json:"estimate"`
	// Jobs are all of them, Estimated those that Estimate is for, and Unknown those whose cost, or a part
	// of it, is in neither.
	Jobs      int `json:"jobs"`
	Estimated int `json:"jobs_estimated"`
	Unknown   int `json:"jobs_unknown"`
}

// Amount is a cost in one unit, which is empty if the service gave none.
type Amount struct {
	Amount float64 `json:"amount"`
	Unit   string  `json:"unit"`
}

// The bases of a cost.
const (
	reported  = "reported"  // by the service, for every job
	estimated = "estimated" // in part by DOCGAUGE_JOB_COST
	atLeast   = "at_least"  // the cost of some jobs is not in it
)

// CostOf returns the cost of jobs, with their follow-ups. While the cost of one is not final, it counts
// as the estimate, or as the cost so far if that is more.
func CostOf(jobs ...Job) (sum Cost) {
	for _, j := range jobs {
		c := Cost{Jobs: 1}
		soFar := 0.0
		if j.Cost != nil {
			soFar = *j.Cost
			c.Reported = []Amount{{soFar, j.CostUnit}}
		}
		switch {
		case j.Cost != nil && journal.IsPriced(j.Result):
		case j.EstimatedCost > 0:
			c.Estimate, c.Estimated = max(0, j.EstimatedCost-soFar), 1
		default:
			c.Unknown = 1
		}
		sum = sum.Plus(c)
	}
	return sum
}

// Plus returns the cost of both.
func (c Cost) Plus(other Cost) Cost {
	add := func(a, b float64) float64 { return math.Round((a+b)*1e6) / 1e6 }
	c.Reported = append([]Amount{}, c.Reported...)
	for _, a := range other.Reported {
		i := slices.IndexFunc(c.Reported, func(b Amount) bool { return a.Unit == b.Unit })
		if i < 0 {
			c.Reported = append(c.Reported, a)
		} else {
			c.Reported[i].Amount = add(c.Reported[i].Amount, a.Amount)
		}
	}
	slices.SortFunc(c.Reported, func(a, b Amount) int { return cmp.Compare(a.Unit, b.Unit) })
	c.Estimate = add(c.Estimate, other.Estimate)
	c.Jobs, c.Estimated, c.Unknown = c.Jobs+other.Jobs, c.Estimated+other.Estimated, c.Unknown+other.Unknown
	return c
}

// Totals are the cost by unit, the estimate with it, and the basis; none if nothing is known. DOCGAUGE_JOB_COST is
// in the unit of the reports: with several units, the estimate is left out.
func (c Cost) Totals() (all []Amount, basis string) {
	all, basis = slices.Clone(c.Reported), reported
	switch {
	case c.Estimated == 0:
	case len(all) > 1:
		c.Unknown += c.Estimated
	case len(all) == 1:
		basis = estimated
		all[0].Amount = math.Round((all[0].Amount+c.Estimate)*1e6) / 1e6
	default:
		all, basis = []Amount{{c.Estimate, ""}}, estimated
	}
	switch {
	case len(all) == 0:
		return nil, ""
	case c.Unknown > 0:
		basis = atLeast
	}
	return all, basis
}

// One returns the cost for the columns of a row: amount is nil if nothing is known, or there are several
// units.
func (c Cost) One() (amount *float64, unit, basis string) {
	all, basis := c.Totals()
	if len(all) != 1 {
		return nil, "", basis
	}
	return &all[0].Amount, all[0].Unit, basis
}

// Text writes the cost, and how far it is known: at least 1.27 USD (1 of 2 jobs unknown). It is empty
// if nothing is known.
func (c Cost) Text() string {
	all, basis := c.Totals()
	note := ""
	switch {
	case basis == estimated && c.Jobs == 1:
		note = " (estimated)"
	case basis == estimated:
		note = fmt.Sprintf(" (%d of %d jobs estimated)", c.Estimated, c.Jobs)
	case basis == atLeast && c.Jobs > 1:
		// With several units the estimated jobs are unknown too.
		unknown := c.Unknown
		if len(all) > 1 {
			unknown += c.Estimated
		}
		note = fmt.Sprintf(" (%d of %d jobs unknown)", unknown, c.Jobs)
	}
	return c.perItem(1) + note
}

// perItem writes the cost of each of n things.
func (c Cost) perItem(n int) string {
	all, basis := c.Totals()
	var texts []string
	for _, a := range all {
		texts = append(texts, strings.TrimSpace(AmountText(a.Amount/float64(n))+" "+a.Unit))
	}
	text := strings.Join(texts, " and ")
	if basis == atLeast {
		text = "at least " + text
	}
	return text
}

// AmountText writes an amount with at most four decimals.
func AmountText(amount float64) string {
	if amount > 0 && amount < 0.0001 {
		return "<0.0001"
	}
	return strconv.FormatFloat(math.Round(amount*1e4)/1e4, 'f', -1, 64)
}

// costSentence says what the merges of a project cost; it is empty if nothing is known.
func (s OutcomeSummary) costSentence() string {
	text := s.Cost.Text()
	switch {
	case text == "":
		return ""
	case s.Merged > 1:
		text += ", " + s.Cost.perItem(s.Merged) + " each"
	}
	return " Cost of " + format.Plural(s.Merged, "merge") + ": " + text + "."
}
