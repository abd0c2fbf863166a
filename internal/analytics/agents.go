package analytics

import "fmt"

// AgentRow is the unique readers of one agent on one path, and their requests. A path, an agent, an
// audience and Found occur together once. Readers are not additive: not over paths, and not over
// audiences.
type AgentRow struct {
	Path     string   `json:"path" about:"Empty: the whole site, of paths that are there."`
	Agent    string   `json:"agent" about:"People are the agents browser and unconfirmed."`
	Class    string   `json:"class"`
	Audience Audience `json:"audience"`
	Found    bool     `json:"found" about:"False: the path was asked for and is not there."`
	Visitors int64    `json:"visitors" about:"Unique readers do not add up over days, paths or audiences."`
	Requests int64    `json:"requests" about:"Of an agent that its vendor hosts they say more than its readers, few addresses."`
}

// Bounds returns an error if the visitors of the site in the same window, human and ai, are not between
// the readers of its largest agent and those of all its agents together. Where people were counted by a mode, each of
// them is of one agent.
func (s Sum) Bounds(site Totals, by Humans) error {
	if people := s.Added.Human; by != "" && people != site.Human {
		return fmt.Errorf("%d human visitors (%s), and its agents that are people have %d readers together: %s", site.Human,
			by, people, by.Rule())
	}
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
	return shapes[AgentsReport].Compare(r.record(), other.record())
}

// record has the columns of the order.
func (r *AgentRow) record() Record {
	return Record{Texts: [maxTexts]string{r.Path, r.Agent, r.Class, string(r.Audience)}, Truths: [maxTruths]bool{r.Found}}
}

// checkAgent refuses a row of the site with paths that were not found.
func checkAgent(r Record) error {
	if r.Path() != "" || r.Truths[0] {
		return nil
	}
	return fmt.Errorf("agent %q: the site has no row of paths that were not found", r.Texts[1])
}

// countSite counts the rows of a window of a report with rows of the site, in their order: those, without a path, come
// first. Sum.Rows counts the rows with a path. Sum.Implausible counts rows with fewer than 0 visitors, or with more
// than the site has by the same key; also, where the report counts requests, rows with fewer of these than visitors.
// Where the report has an audience, Sum.Largest and Sum.Added are over the rows of the site, and their Total is 0: see
// [Sum.Bounds].
func (s *Shape) countSite(sum *Sum) func(Record) {
	site := map[[maxTexts]string]int64{} // visitors, by the texts of the key
	return func(r Record) {
		visitors := r.Counts[s.rank]
		plausible := visitors >= 0 && (s.requests < 0 || r.Counts[s.requests] >= visitors)
		of := s.textKey(r)
		if r.Path() == "" {
			site[of] = visitors
			if s.audience >= 0 {
				sum.bound(Audience(r.Texts[s.audience]), visitors)
			}
			if s.agent >= 0 && s.audience >= 0 && r.Texts[s.agent] == BrowserAgent &&
				r.Texts[s.audience] == string(Human) {
				sum.Confirmed = max(visitors, 0)
			}
		} else {
			sum.Rows++
			plausible = plausible && (!s.IsFound(r) || visitors <= site[of])
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
