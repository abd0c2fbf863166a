package prompts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// template checks the templates of a prompt: their form, then by rendering them
// with numbers made up, and without any.
func (r *reader) template() {
	p := r.prompt
	var findings []Finding
	for _, part := range parts(p) {
		_, wrong := compile(part.text, part.line, p.Recurs())
		findings = append(findings, wrong...)
	}
	if len(findings) == 0 && p.Body != "" {
		findings = rehearse(p)
	}
	slices.SortFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	for _, f := range findings {
		r.find(f.Line, "%s", f.Text)
	}
}

// part is one text of a prompt, and where it begins.
type part struct {
	text string
	line int
}

// parts returns the body and the follow-ups.
func parts(p Prompt) []part {
	all := []part{{p.Body, max(1, p.bodyLine)}}
	for i, text := range p.FollowUps {
		line := 1
		if i < len(p.followUpLines) {
			line = p.followUpLines[i]
		}
		all = append(all, part{text, line})
	}
	return all
}

// rehearse renders a prompt with numbers made up, and without any. What fails then
// would fail when it is its time; that there is nothing to send, or no numbers yet,
// is no mistake.
func rehearse(p Prompt) []Finding {
	at := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	if p.Recurs() {
		at = p.Schedule.Next(at)
	}
	for _, n := range []Numbers{sample{analytics.DateOf(at)}, nil} {
		_, err := Render(context.Background(), p, at, n)
		wrong, failed := errors.AsType[*RenderError](err)
		if failed && !errors.Is(err, ErrNoNumbers) && !errors.Is(err, ErrNothing) {
			return []Finding{wrong.Finding}
		}
	}
	return nil
}

// sample is numbers made up: MaxPages pages that gain visitors and as many that
// lose some, in windows that end on a date.
type sample struct{ end analytics.Date }

func (s sample) windows(g analytics.Granularity) (window, former analytics.Window) {
	days := max(7, analytics.Date(g.RollingDays()))
	return analytics.Window{From: s.end - days, To: s.end}, analytics.Window{From: s.end - 2*days, To: s.end - days}
}

func (s sample) Site(_ context.Context, _ string, g analytics.Granularity) (Site, error) {
	window, former := s.windows(g)
	return Site{window, former, analytics.Totals{Human: 900, AI: 200, Total: 1000}, analytics.Totals{Human: 800, AI: 100, Total: 850}}, nil
}

func (s sample) Pages(_ context.Context, _ string, g analytics.Granularity) (Pages, error) {
	window, former := s.windows(g)
	pages := Pages{Window: window, FormerWindow: former}
	for i := range int64(MaxPages) {
		less, more := 100+i, 200+2*i
		up, down := fmt.Sprintf("/example/up-%d", i), fmt.Sprintf("/example/down-%d", i)
		pages.Rows = append(pages.Rows, analytics.Row{Path: up, Human: more, AI: more, Total: more}, analytics.Row{Path: down, Human: less, AI: less, Total: less})
		pages.Former = append(pages.Former, analytics.Row{Path: up, Human: less, AI: less, Total: less}, analytics.Row{Path: down, Human: more, AI: more, Total: more})
	}
	return pages, nil
}
