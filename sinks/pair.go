package sinks

import (
	"errors"
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Pair is one window in the two tables of a sink; nil if the table lacks it. A sink that
// cannot change both at once changes visitors first, or, where only totals were read,
// totals first: so every crash can be completed from the files. Of a report whose rows and
// totals are in one table, both are the same.
type Pair struct {
	Visitors, Totals *Shown
}

// remedy makes the two tables agree.
type remedy int

// The remedies.
const (
	// Nothing: the tables agree.
	Nothing remedy = iota
	// WriteTotals: visitors are the newer ones.
	WriteTotals
	// RemoveVisitors: a totals-only revision took their place.
	RemoveVisitors
	// ExportAgain: visitors are lost.
	ExportAgain
)

// Remedy decides which table shows the newest revision. Older is the smaller number,
// and among equals the earlier ExportedAt.
func (p Pair) Remedy() remedy {
	v, t := p.Visitors, p.Totals
	switch {
	case v == nil && (t == nil || t.TotalsOnly()):
		return Nothing
	case v == nil:
		return ExportAgain
	case t != nil && v.Same(t.Revision):
		return Nothing
	case t != nil && t.TotalsOnly() && (t.Number > v.Number || t.Number == v.Number &&
		t.ExportedAt.After(v.ExportedAt)):
		return RemoveVisitors
	}
	return WriteTotals
}

// Newest is the revision that readers see once the tables agree; nil if it is unknown.
func (p Pair) Newest() *Shown {
	switch r := p.Remedy(); {
	case r == ExportAgain:
		return nil
	case r != RemoveVisitors && p.Visitors != nil:
		return p.Visitors
	}
	return p.Totals
}

// ErrDisagree means that the two tables do not show one revision.
var ErrDisagree = errors.New("the tables disagree")

// disagreement is ErrDisagree in words.
type disagreement struct{ error }

func (disagreement) Is(err error) bool { return err == ErrDisagree } //nolint:errorlint // what errors.Is asks

// Disagreement says how the tables differ; nil if they agree.
func (p Pair) Disagreement() error {
	describe := func(r analytics.Revision) string {
		return fmt.Sprintf("revision %d with %d rows and the totals %d, %d, %d of %s", r.Number, r.Rows,
			r.Totals.Human, r.Totals.AI, r.Totals.Total, r.ExportedAt.Format("2006-01-02 15:04:05"))
	}
	switch v, t := p.Visitors, p.Totals; {
	case p.Remedy() == Nothing:
		return nil
	case v == nil:
		return disagreement{fmt.Errorf("the visitors file of revision %d with %d rows is missing: export the window "+
			"again", t.Number, t.Rows)}
	case t == nil:
		return disagreement{fmt.Errorf("the totals file of revision %d is missing", v.Number)}
	default:
		return disagreement{fmt.Errorf("the visitors file shows %s, the totals file %s",
			describe(v.Revision), describe(t.Revision))}
	}
}
