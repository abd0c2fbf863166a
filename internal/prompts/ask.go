package prompts

import (
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
)

// site returns the site's numbers of a granularity.
func (f *filling) site(granularity string) (Site, error) {
	g, err := f.granularity(granularity)
	if err != nil {
		return Site{}, err
	}
	if site, ok := f.sites[g]; ok {
		return site, nil
	}
	site, err := f.numbers.Site(f.ctx, f.prompt.Project, g)
	if err == nil {
		err = f.fit(g, site.Window, site.FormerWindow)
	}
	if err != nil {
		return Site{}, callf("numbers of the %s: %w", g, err)
	}
	f.sites = keep(f.sites, g, site)
	return site, nil
}

// rows returns the pages of a granularity.
func (f *filling) rows(granularity string) (Pages, error) {
	g, err := f.granularity(granularity)
	if err != nil {
		return Pages{}, err
	}
	if pages, ok := f.pages[g]; ok {
		return pages, nil
	}
	pages, err := f.numbers.Pages(f.ctx, f.prompt.Project, g)
	if err == nil {
		err = f.fit(g, pages.Window, pages.FormerWindow)
	}
	if err != nil {
		return Pages{}, callf("pages of the %s: %w", g, err)
	}
	f.pages = keep(f.pages, g, pages)
	return pages, nil
}

func (f *filling) granularity(s string) (analytics.Granularity, error) {
	g, err := analytics.ParseGranularity(s)
	if err != nil {
		return "", &callError{err}
	}
	if f.numbers == nil {
		return "", callf("numbers of the %s: %w", g, ErrNoNumbers)
	}
	return g, nil
}

// fit refuses numbers that would say something else than the prompt means: of
// windows that are not adjacent, long past, or not those asked for a moment ago.
func (f *filling) fit(g analytics.Granularity, window, former analytics.Window) error {
	late := window.To + analytics.Date(2*window.Days()+7)
	seen, asked := f.windows[g]
	switch {
	case former.To != window.From || former.Days() < 1 || window.Days() < 1:
		return fmt.Errorf("%w: the settled window %s does not follow on %s", ErrNoNumbers, window, former)
	case analytics.DateOf(f.at) > late:
		return fmt.Errorf("%w: the newest settled window is %s, and it is %s: is anything exported?", ErrNoNumbers, window, analytics.DateOf(f.at))
	case asked && seen != window:
		return fmt.Errorf("%w: they changed meanwhile, from the window %s to %s", ErrNoNumbers, seen, window)
	}
	f.windows = keep(f.windows, g, window)
	return nil
}
