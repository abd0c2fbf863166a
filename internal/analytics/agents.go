package analytics

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// AgentRow is the unique readers of one agent on one path, and their requests. A path, an agent, an
// audience and Found occur together once. Readers are not additive: not over paths, and not over
// audiences.
type AgentRow struct {
	Path     string   `json:"path" about:"Empty: the whole site, of paths that are there."`
	Agent    string   `json:"agent"`
	Class    string   `json:"class"`
	Audience Audience `json:"audience"`
	Found    bool     `json:"found" about:"False: the path was asked for and is not there."`
	Visitors int64    `json:"visitors" about:"Unique readers do not add up over days, paths or audiences."`
	Requests int64    `json:"requests"`
}

// Bounds returns an error if the visitors of the site in the same window, human and ai, are not between
// the readers of its largest agent and those of all its agents together.
func (s Sum) Bounds(site Totals) error {
	for _, of := range [...]struct {
		name                   string
		largest, visitors, sum int64
	}{{"human", s.Largest.Human, site.Human, s.Added.Human}, {"ai", s.Largest.AI, site.AI, s.Added.AI}} {
		if of.visitors < of.largest || of.visitors > of.sum {
			return fmt.Errorf("%d %s visitors, and its %s agents have %d readers at most and %d together", of.visitors,
				of.name, of.name, of.largest, of.sum)
		}
	}
	return nil
}

// Compare orders rows as the report has them.
func (r AgentRow) Compare(other AgentRow) int {
	if c := cmp.Or(strings.Compare(r.Path, other.Path), strings.Compare(r.Agent, other.Agent),
		strings.Compare(string(r.Audience), string(other.Audience))); c != 0 || r.Found == other.Found {
		return c
	}
	if other.Found {
		return -1
	}
	return 1
}

// TopAgents returns the n rows of the site with the most readers, ties in order, of the rows of a window, and
// how many others the site has. It reads no rows of paths. An error of rows ends it.
func TopAgents(rows iter.Seq2[AgentRow, error], n int) (top []AgentRow, others int, err error) {
	for row, err := range rows {
		if err != nil {
			return nil, 0, err
		}
		if row.Path != "" {
			break // those of the site come first
		}
		top = append(top, row)
	}
	slices.SortStableFunc(top, func(a, b AgentRow) int { return cmp.Compare(b.Visitors, a.Visitors) })
	others = max(0, len(top)-n)
	return top[:len(top)-others], others, nil
}

// checkAgent refuses a row of the site with paths that were not found.
func checkAgent(r Record) error {
	if r.Path() != "" || r.Truths[0] {
		return nil
	}
	return fmt.Errorf("agent %q: the site has no row of paths that were not found", r.Texts[1])
}

// countAgents counts the agent rows of a window in their order: rows of the site, without a path, come first.
// Sum.Rows counts the rows with a path. Sum.Implausible counts rows with fewer requests than readers, or with more
// readers than the site has of the same agent and audience. Sum.Largest and Sum.Added are over the rows of the site,
// and their Total is 0: see [Sum.Bounds].
func countAgents(sum *Sum) func(Record) {
	site := map[[2]string]int64{} // readers, by agent and audience
	return func(r Record) {
		agent, audience, found := r.Texts[1], r.Texts[3], r.Truths[0]
		visitors, requests := r.Counts[0], r.Counts[1]
		plausible := visitors >= 0 && requests >= visitors
		of := [2]string{agent, audience}
		if r.Path() == "" {
			site[of] = visitors
			sum.bound(Audience(audience), visitors)
		} else {
			sum.Rows++
			plausible = plausible && (!found || visitors <= site[of])
		}
		sum.doubt(r, plausible)
	}
}

// bound takes in the readers of an agent on the site.
func (s *Sum) bound(by Audience, readers int64) {
	switch by {
	case Human:
		s.Largest.Human, s.Added.Human = max(s.Largest.Human, readers), addUpTo(s.Added.Human, readers)
	case AI:
		s.Largest.AI, s.Added.AI = max(s.Largest.AI, readers), addUpTo(s.Added.AI, readers)
	}
}
