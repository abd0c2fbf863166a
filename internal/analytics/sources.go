package analytics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// SourceRow is the unique people whom one source brought to one path, and their requests. A path, a source and an agent
// occur together once. People are not additive: not over paths, and not over sources.
type SourceRow struct {
	Path     string `json:"path" about:"Empty: the whole site."`
	Source   string `json:"source" about:"Where people came from; site is another page of the site, none is not known."`
	Class    string `json:"class" about:"Of the source: assistant, search, code, social, other, site or none."`
	Agent    string `json:"agent" about:"People are the agents browser and unconfirmed."`
	Visitors int64  `json:"visitors" about:"Unique people do not add up over days, paths or sources."`
	Requests int64  `json:"requests"`
}

// Compare orders rows as the report has them.
func (r SourceRow) Compare(other SourceRow) int {
	return cmp.Or(strings.Compare(r.Path, other.Path), strings.Compare(r.Source, other.Source),
		strings.Compare(r.Agent, other.Agent))
}

// ViewRow is the requests for one page. They add up: over pages, days and audiences.
type ViewRow struct {
	Path  string `json:"path"`
	Human int64  `json:"human" about:"Requests of all that call themselves browsers."`
	AI    int64  `json:"ai"`
	Total int64  `json:"total" about:"human + ai. Requests add up over days and pages."`
}

// readsForSource returns the path and the source of a row of agents, and its requests.
func readsForSource(r Record) (key [2]string, n int64) {
	source := SourceOfAgent(r.Texts[1])
	if source == "" || !r.Truths[0] {
		return key, 0
	}
	return [2]string{r.Texts[0], source}, r.Counts[1]
}

// countSite counts the rows of a window of a report with rows of the site, in their order: those, without a path, come
// first. Sum.Rows counts the rows with a path. Sum.Implausible counts rows with fewer than 0 visitors, or with more
// than the site has by the same key; also, where the report counts requests, rows with fewer of these than visitors.
// The counts of Sum.Largest and Sum.Added are over the rows of the site that each of [Shape.Bounds] names, in that order.
func (s *Shape) countSite(sum *Sum) func(Record) {
	site := map[[maxTexts]string]int64{} // visitors, by the texts of the key
	return func(r Record) {
		visitors := r.Counts[s.rank]
		plausible := visitors >= 0 && (s.requests < 0 || r.Counts[s.requests] >= visitors)
		of := s.textKey(r)
		if r.Path() == "" {
			site[of] = visitors
			s.bound(sum, r, visitors)
			if s.agent >= 0 && s.audience >= 0 && r.Texts[s.agent] == BrowserAgent && r.Texts[s.audience] == string(Human) {
				sum.Confirmed = max(visitors, 0)
			}
		} else {
			sum.Rows++
			plausible = plausible && (!s.IsFound(r) || visitors <= site[of])
		}
		sum.doubt(r, plausible)
	}
}

// bound takes in the readers of a row of the site.
func (s *Shape) bound(sum *Sum, r Record, readers int64) {
	for i, b := range s.Bounds {
		text := slices.IndexFunc(s.Columns[:s.texts], func(c Column) bool { return c.Name == b.Text })
		if text < 0 || r.Texts[text] == b.Value {
			largest, added := sum.Largest.Fields()[i], sum.Added.Fields()[i]
			*largest, *added = max(*largest, readers), addUpTo(*added, readers)
		}
	}
}

// CheckBounds returns an error if the visitors of the site in the same window, counted by a mode, are not between the
// readers of the largest row of the site and the readers of all of them together, as Bounds says.
func (s *Shape) CheckBounds(sum Sum, site Totals, by Humans) error {
	for i, b := range s.Bounds {
		if b.Humans != "" && b.Humans != by {
			continue
		}
		visitors, largest, added := site.Of(b.Visitors), *sum.Largest.Fields()[i], *sum.Added.Fields()[i]
		if b.Exact && by != "" && visitors != added {
			return fmt.Errorf("%d human visitors (%s), and its %s that are people have %d readers together: %s", visitors, by,
				s.Name, added, by.Rule())
		}
		if visitors < largest || visitors > added {
			return fmt.Errorf("%d %s visitors, and its %s %s have %d readers at most and %d together", visitors, b.Visitors,
				b.Visitors, s.Name, largest, added)
		}
	}
	return nil
}
