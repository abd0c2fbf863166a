package exporter

import "github.com/docgauge/docgauge/internal/analytics"

func (s series) visitors() {
	for _, w := range s.Windows {
		s.window(w)
	}
	for _, o := range s.Open {
		project, window := o.Project, string(o.Granularity)
		s.totals(OpenSiteVisitors, OpenSiteVisitorsDeduplicated, o.Totals, project, window)
		s.timestamp(OpenWindowReadTimestamp, o.ReadAt, project, window)
	}
}

func (s series) window(w Window) {
	project, window := w.Project, string(w.Granularity)
	s.totals(SiteVisitors, SiteVisitorsDeduplicated, w.Totals, project, window)
	if w.Previous != nil {
		s.totals(PreviousSiteVisitors, PreviousSiteVisitorsDeduplicated, *w.Previous, project, window)
	}
	if !w.TotalsOnly() {
		s.gauge(Pages, float64(w.Rows), project, window)
	}
	s.timestamp(WindowStartTimestamp, w.From.Time(), project, window)
	s.timestamp(WindowEndTimestamp, w.To.Time(), project, window)
	s.flag(WindowSettled, w.Settled, project, window)
	s.flag(WindowVerified, w.Verified, project, window)
	s.gauge(WindowSuspectRows, float64(w.MovedRows), project, window, KindMoved)
	s.gauge(WindowSuspectRows, float64(w.RepeatedRows), project, window, KindRepeated)
	for _, p := range w.Pages {
		page := analytics.Totals{Human: p.Human, AI: p.AI, Total: p.Total}
		s.totals(PageVisitors, PageVisitorsDeduplicated, page, project, window, p.Path)
	}
}

// totals writes the two audiences of t under one name and both together, each
// visitor once, under another.
func (s series) totals(name, deduplicated string, t analytics.Totals, labels ...string) {
	with := func(audience string) []string { return append(labels[:len(labels):len(labels)], audience) }
	s.gauge(name, float64(t.Human), with(AudienceHuman)...)
	s.gauge(name, float64(t.AI), with(AudienceAI)...)
	s.gauge(deduplicated, float64(t.Total), labels...)
}
