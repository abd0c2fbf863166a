package facts

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
)

// Sources are the people whom each source has brought to the site and to each path, in the order of
// [analytics.SourceRow.Compare].
type Sources = Answer[[]analytics.SourceRow, analytics.SourceRow]

// Views are the requests for pages of the site and for each page: by total from the largest, then by path.
type Views = Answer[analytics.Totals, analytics.ViewRow]

// CountSources counts the people whom each source has brought, in days as [Store.CountVisitors] wants them. The mode
// changes nothing: people with and without evidence are apart.
func (s *Store) CountSources(
	ctx context.Context, project string, from, to analytics.Date, _ analytics.Humans,
) (a Sources, err error) {
	w, err := s.openWindow(ctx, project, from, to, true)
	if err != nil {
		return a, err
	}
	defer w.close()
	all, err := s.referrals(ctx)
	if err != nil {
		return a, err
	}
	// Referrals of one name are one source, of the class that the name has had last.
	var sources []Referral
	groups, of := make([]int32, len(all)), map[string]int32{}
	for _, r := range all {
		group, known := of[r.Name]
		if !known {
			group = int32(len(sources))
			of[r.Name], sources = group, append(sources, r)
		}
		sources[group].Class = r.Class
		groups[r.Number] = group
	}
	site, cells, err := s.tally(ctx, w, len(sources), func(stripe int, t *tally) error {
		return sourcesOf(w, stripe, groups, len(sources), t)
	})
	if err != nil {
		return a, err
	}
	row := func(path string, c cell) analytics.SourceRow {
		agent := agents.Browser.Token
		if c.kind == unconfirmed {
			agent = agents.Unconfirmed.Token
		}
		return analytics.SourceRow{Path: path, Source: sources[c.group].Name, Class: sources[c.group].Class, Agent: agent,
			Visitors: c.visitors, Requests: c.requests}
	}
	for _, c := range site {
		a.Totals = append(a.Totals, row("", c))
	}
	for _, c := range cells {
		a.Rows = append(a.Rows, row(w.names[c.page], c))
	}
	slices.SortFunc(a.Totals, analytics.SourceRow.Compare)
	slices.SortFunc(a.Rows, analytics.SourceRow.Compare)
	return a, nil
}

// sourcesOf counts a stripe. groups has the source of each referral, by its number.
func sourcesOf(w *window, stripe int, groups []int32, sources int, t *tally) (err error) {
	var kindOf []uint8 // by number of the reader
	numbers, err := number(w, stripe, nil, func(r numbered) {
		kind := uint8(Human)
		if !r.shown {
			kind = unconfirmed
		}
		kindOf = append(kindOf, kind)
	})
	if err != nil {
		return err
	}
	// The sources that brought a reader, to the site and to the present page: a bit for each.
	words := (sources + 63) / 64
	ofSite, ofPage := make([]uint64, len(kindOf)*words), make([]uint64, len(kindOf)*words)
	var marked []int // in ofPage
	mark := func(in []uint64, word, bit int) (isNew bool) {
		isNew = in[word]>>bit&1 == 0
		in[word] |= 1 << bit
		return isNew
	}
	return eachPage(w.days, stripe, numbers, func(own []uint32, p *pages) {
		p.each(func(f fact) {
			referral := int(f.category.referral())
			if referral == NoReferral {
				return // not a person's
			}
			if referral >= len(groups) {
				p.fail(fmt.Sprintf("referral %d has no name", referral))
				return
			}
			reader, source := int(own[f.reader]), int(groups[referral])
			place := source*kinds + int(kindOf[reader])
			word, bit := reader*words+source/64, source%64
			c := t.add(place, &f)
			if mark(ofPage, word, bit) {
				marked = append(marked, word)
				c.visitors++
				if mark(ofSite, word, bit) {
					t.site[place].visitors++
				}
			}
		})
	}, func(page int32) {
		t.endPage(page)
		for _, word := range marked {
			ofPage[word] = 0
		}
		marked = marked[:0]
	})
}

// CountViews counts the requests of people and of AI for pages, in days as [Store.CountVisitors] wants them. The mode
// changes nothing: people are all that call themselves browsers.
func (s *Store) CountViews(
	ctx context.Context, project string, from, to analytics.Date, _ analytics.Humans,
) (a Views, err error) {
	w, err := s.openWindow(ctx, project, from, to, false)
	if err != nil {
		return a, err
	}
	defer w.close()
	_, cells, err := s.tally(ctx, w, 1, func(stripe int, t *tally) error {
		numbers, err := number(w, stripe, nil, func(numbered) {})
		if err != nil {
			return err
		}
		return eachPage(w.days, stripe, numbers, func(_ []uint32, p *pages) {
			p.each(func(f fact) {
				if kind := f.category.kind(); kind < Neither {
					t.add(int(kind), &f)
				}
			})
		}, t.endPage)
	})
	if err != nil {
		return a, err
	}
	for _, c := range cells { // of a page one after another
		n := analytics.Totals{Total: c.requests}
		if c.kind == Human {
			n.Human = c.requests
		} else {
			n.AI = c.requests
		}
		add(&a.Totals, n)
		path := w.names[c.page]
		if len(a.Rows) == 0 || a.Rows[len(a.Rows)-1].Path != path {
			a.Rows = append(a.Rows, analytics.ViewRow{Path: path})
		}
		row := &a.Rows[len(a.Rows)-1]
		row.Human, row.AI, row.Total = row.Human+n.Human, row.AI+n.AI, row.Total+n.Total
	}
	slices.SortFunc(a.Rows, func(x, y analytics.ViewRow) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), cmp.Compare(x.Path, y.Path))
	})
	return a, nil
}
