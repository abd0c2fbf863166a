package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/outcomes"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// A digest has at most digestMovers rising, as many falling pages; its text names at most digestJobs jobs.
	digestMovers = 3
	digestJobs   = 10
	digestAgents = 5 // of the week, and of a path that is not there
	digestMisses = 3
	digestRows   = 5 // of any other report
	// outcomesTimeout limits reading the archive for them: a single export has a short time for events.
	outcomesTimeout = 8 * time.Second
	// A missed firing is first searched for in the last farBack.
	farBack = 31 * 24 * time.Hour
)

// firingsCount enters and returns the time from which firings of the digest's schedule count.
func (w *Watcher) firingsCount(e *evaluation) time.Time {
	condition := conditionOf(digestSchedule, w.app.Config.Digest.String())
	if w.app.Config.Digest.String() == "" {
		return e.now
	}
	if e.isNew(condition) {
		e.remember(state.Reported{Condition: condition, At: e.now})
		return e.now
	}
	return e.reported[condition].At
}

// digests reports the newest week of each project, once for the newest firing of
// DOCGAUGE_DIGEST. A project waits until its last week is exported and can be read from a sink.
func (w *Watcher) digests(ctx context.Context, e *evaluation) error {
	cron := w.app.Config.Digest
	if cron.String() == "" {
		return nil
	}
	if wrong, err := w.misfired(ctx, e); wrong {
		return err
	}
	counted := w.firingsCount(e)
	var ledger *coverage.Ledger
	outcomes := sync.OnceValue(func() view.Outcomes { return w.outcomes(ctx, e.now) })
	var errs []error
	for _, project := range w.app.Config.Projects {
		condition := conditionOf(digest, project)
		last, known := e.reported[condition]
		if known {
			e.live[condition] = true
		}
		from := counted
		if sent := time.UnixMicro(last.Value).UTC(); sent.After(from) {
			from = sent
		}
		firing := newestFiring(cron, from, e.now)
		if firing.IsZero() {
			continue
		}
		if ledger == nil {
			l, err := coverage.Read(ctx, w.app.State, e.now)
			if err != nil {
				return err
			}
			ledger = &l
		}
		newest := ledger.NewestWeek(project, e.now)
		if newest == nil || newest.To < schedule.Newest(analytics.Week, analytics.DateOf(firing)).To {
			continue // not exported yet
		}
		// A clock that is ahead would report this firing now, and miss the one that is due then.
		if confirmed, err := w.app.ConfirmClock(ctx); !confirmed {
			errs = append(errs, err)
			continue
		}
		event, err := w.digestOf(ctx, *ledger, *newest, outcomes)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := e.report(condition, firing.UnixMicro(), event); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// outcomes returns the outcomes of recent merges. A digest does not wait for them.
func (w *Watcher) outcomes(ctx context.Context, now time.Time) view.Outcomes {
	ctx, cancel := context.WithTimeout(ctx, outcomesTimeout)
	defer cancel()
	all, err := outcomes.Estimate(ctx, w.app.State, w.app.Archive(),
		outcomes.Selection{Projects: w.app.Config.Projects, Since: now.Add(-outcomes.Recent)})
	if err != nil {
		w.app.Log.Warn("outcomes of merges for the digest not estimated from all windows", "error", err)
	}
	return all
}

// misfired forgets the reported firings, and since when firings count, if one of them is in
// the future: the clock was ahead. The next firing is reported. A clock that is behind now would report one
// twice, so nothing is forgotten before the service confirms the clock.
func (w *Watcher) misfired(ctx context.Context, e *evaluation) (wrong bool, err error) {
	next := clock.Later(w.app.Config.Digest.Next(e.now), e.now.Add(clock.Tolerance))
	var digests []string
	for condition, reported := range e.reported {
		isDigest, counts := strings.HasPrefix(condition, digest+"/"), strings.HasPrefix(condition, digestSchedule+"/")
		if isDigest || counts {
			digests = append(digests, condition)
		}
		wrong = wrong || isDigest && time.UnixMicro(reported.Value).After(next) || counts &&
			clock.IsFuture(reported.At, e.now)
	}
	if !wrong {
		return false, nil
	}
	confirmed, err := w.app.ConfirmClock(ctx)
	for _, condition := range digests {
		if e.live[condition] = true; confirmed {
			e.over(condition)
		}
	}
	return true, err
}

// newestFiring returns the newest firing after from that is not after now, or zero.
func newestFiring(cron schedule.Cron, from, now time.Time) (newest time.Time) {
	if recent := now.Add(-farBack); recent.After(from) && !cron.Next(recent).After(now) {
		from = recent
	}
	for next := cron.Next(from); !next.IsZero() && !next.After(now); next = cron.Next(next) {
		newest = next
	}
	return newest
}

// weekOf returns a week and its change from the week before, whose entry is nil if that was not
// exported, or counts people by another mode.
func weekOf(l coverage.Ledger, week state.Entry) (out view.Week, before *state.Entry) {
	out = view.Week{From: week.From, To: week.To, Settled: week.Settled, Totals: week.Totals, Humans: week.Humans}
	former := week.Key
	former.Window = schedule.Previous(analytics.Week, week.Window)
	if before = l.Entry(former); before != nil && !before.Comparable(week.Revision) {
		out.HumansBefore, before = &before.Humans, nil
	}
	if before != nil {
		out.Before = &before.Totals
		out.Change = &analytics.Totals{
			Human: week.Totals.Human - before.Totals.Human, AI: week.Totals.AI - before.Totals.AI,
			Total: week.Totals.Total - before.Totals.Total,
		}
	}
	return out, before
}

// digestOf returns the digest of a week, with what became of merges.
func (w *Watcher) digestOf(
	ctx context.Context, l coverage.Ledger, week state.Entry, outcomes func() view.Outcomes,
) (event view.Event, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("digest of %s: %w", week.Project, err)
		}
	}()
	d := view.Digest{}
	var before *state.Entry
	d.Week, before = weekOf(l, week)
	if before != nil && !week.TotalsOnly() && !before.TotalsOnly() {
		if d.Pages, err = w.pages(ctx, *before, week); err != nil {
			return event, err
		}
	}
	if err = errors.Join(w.agents(ctx, l, week, &d), w.sources(ctx, l, week, &d)); err != nil {
		return event, err
	}
	if err = w.others(ctx, l, week, &d); err != nil {
		return event, err
	}
	jobs, err := w.app.State.Jobs(ctx)
	for _, j := range jobs {
		in := !j.Ended.Before(week.From.Time()) && j.Ended.Before(week.To.Time())
		if in && j.Project == week.Project && j.Result() != "" {
			d.Jobs = append(d.Jobs, view.DigestJob{
				Prompt: j.Prompt, Title: j.Title, Result: j.Result(), PRLink: analytics.SafeLink(j.PRLink),
				Ended: j.Ended,
			})
		}
	}
	for _, s := range outcomes().Of(week.Project).Summaries {
		if s.Comparisons > 0 || s.Cost.Text() != "" {
			d.Outcomes = &s
		}
	}
	return view.Event{Event: digest, Project: week.Project, Digest: &d}, err
}

// agents adds the agents of a week, if they are exported, and what they missed.
func (w *Watcher) agents(ctx context.Context, l coverage.Ledger, week state.Entry, d *view.Digest) error {
	now, former := weeksOf(l, analytics.AgentsReport, week)
	if now == nil {
		return nil
	}
	for _, list := range []query.AgentList{query.SiteAgents, query.Misses} {
		if list == query.Misses && now.TotalsOnly() {
			continue
		}
		ranking, err := query.AgentRanking{List: list, N: view.MaxRows}.Complete()
		if err != nil {
			return err
		}
		r, err := app.Compare(ctx, w.app, *now, former, ranking, query.CompareAgents)
		if err != nil {
			return err
		}
		if list == query.SiteAgents {
			d.People = r.People
		}
		for _, a := range r.Agents {
			isPerson := a.Audience == analytics.Human || a.Agent == analytics.UnconfirmedAgent
			if !isPerson && len(d.Agents) < digestAgents {
				d.Agents = append(d.Agents, a)
			}
		}
		for _, m := range r.Misses {
			if view.PlainPath(m.Path) && len(d.Misses) < digestMisses {
				m.Agents = m.Agents[:min(len(m.Agents), digestAgents)]
				d.Misses = append(d.Misses, m)
			}
		}
	}
	if now.TotalsOnly() {
		return nil
	}
	missed, err := app.Compare(ctx, w.app, *now, nil, nil, func(
		ctx context.Context, from sinks.Sink, _, week *analytics.Revision, _ any,
	) (query.MissedPaths, error) {
		return query.MissedIn(ctx, from, []analytics.Revision{*week})
	})
	if all := redirects.Propose(missed.Misses, redirects.Site{Pages: missed.Pages}); len(all) > 0 {
		d.Missed = &view.DigestMissed{Paths: len(all), Sure: len(redirects.SureRules(all))}
	}
	return err
}

// weeksOf returns the entries of a report for a week and the week before; nil if they are not exported.
func weeksOf(l coverage.Ledger, report analytics.Report, week state.Entry) (now, former *state.Entry) {
	key := week.Key
	key.Report = report
	now = l.Entry(key)
	key.Window = schedule.Previous(analytics.Week, week.Window)
	return now, l.Entry(key)
}

// others adds the first rows of the other reports.
func (w *Watcher) others(ctx context.Context, l coverage.Ledger, week state.Entry, d *view.Digest) error {
	for _, report := range analytics.OtherReports {
		now, former := weeksOf(l, report, week)
		shape := report.Shape()
		if now == nil || now.TotalsOnly() && !shape.Site || report == analytics.SourcesReport {
			continue
		}
		ranking, err := query.RowRanking{Report: report, N: digestRows}.Complete()
		if err != nil {
			return err
		}
		r, err := app.Compare(ctx, w.app, *now, former, ranking, query.CompareRows)
		if err != nil {
			return err
		}
		part := view.DigestReport{Report: report, Rows: []view.DigestRow{}}
		for _, row := range r.Rows {
			out := view.DigestRow{Texts: map[string]string{}, Counts: map[string]int64{}, Change: row.Change,
				Percent: row.Percent}
			for i, c := range shape.Columns {
				switch value := shape.Value(row.Row, i).(type) {
				case string:
					if value != "" {
						out.Texts[c.Name] = value
					}
				case int64:
					out.Counts[c.Name] = value
				}
			}
			part.Rows = append(part.Rows, out)
		}
		d.Reports = append(d.Reports, part)
	}
	return nil
}

// sources adds the assistants that sent people in a week, if sources are exported.
func (w *Watcher) sources(ctx context.Context, l coverage.Ledger, week state.Entry, d *view.Digest) error {
	now, former := weeksOf(l, analytics.SourcesReport, week)
	if now == nil {
		return nil
	}
	ranking, err := query.RowRanking{Report: analytics.SourcesReport, N: view.MaxRows}.Complete()
	if err != nil {
		return err
	}
	r, err := app.Compare(ctx, w.app, *now, former, ranking, query.CompareRows)
	for i, row := range analytics.RowsOf[analytics.SourceRow](r.Records()) {
		if row.Class == "assistant" && len(d.Sources) < digestAgents {
			d.Sources = append(d.Sources, view.DigestSource{Source: row.Source, Agent: row.Agent, Visitors: row.Visitors,
				Change: r.Rows[i].Change, Reads: r.Rows[i].Beside})
		}
	}
	return err
}

// rows returns the most read pages of two weeks.
func (w *Watcher) rows(ctx context.Context, before, week state.Entry) (earlier, later []analytics.Row, err error) {
	if earlier, err = w.app.Rows(ctx, before); err == nil {
		later, err = w.app.Rows(ctx, week)
	}
	return earlier, later, err
}

// pages returns how the pages of a week moved.
func (w *Watcher) pages(ctx context.Context, before, week state.Entry) (*view.DigestPages, error) {
	earlier, later, err := w.rows(ctx, before, week)
	if err != nil {
		return nil, err
	}
	m, err := analytics.FindMovers(analytics.ByPath(earlier), analytics.ByPath(later), analytics.Everyone, digestMovers)
	if err != nil {
		return nil, err
	}
	return &view.DigestPages{Rising: digestPages(m.Rising.First), Falling: digestPages(m.Falling.First),
		Appeared: m.Appeared.Count, Vanished: m.Vanished.Count}, nil
}

// digestPages are pages as a digest shows them.
func digestPages(all []analytics.Change) []view.DigestPage {
	out := []view.DigestPage{}
	for _, c := range all {
		out = append(out, view.DigestPage{Path: c.Path, Totals: c.After, Before: c.Before})
	}
	return out
}

// digestLines are the digest in words, below the text of its event.
func digestLines(d *view.Digest) (lines []string) {
	say := func(form string, args ...any) { lines = append(lines, fmt.Sprintf(form, args...)) }
	lines = audienceLines(d.Week)
	if d.Pages != nil {
		movers := func(title string, pages []view.DigestPage) {
			for _, p := range pages {
				say("%s: %s %s (%s)", title, format.Cut(p.Path, view.MaxName),
					view.Signed(p.Totals.Total-p.Before.Total), format.Commas(p.Totals.Total))
			}
		}
		movers("Rising", d.Pages.Rising)
		movers("Falling", d.Pages.Falling)
		say("%s appeared, %s vanished", format.Plural(d.Pages.Appeared, "page"), format.Commas(d.Pages.Vanished))
	}
	for _, a := range d.Agents {
		say("Assistant %s: %s%s, %s", format.Cut(a.Agent, view.MaxName), format.Plural(a.Visitors, "reader"),
			changeOf(a.Change, a.Visitors), format.Plural(a.Requests, "request"))
	}
	if len(d.Agents) > 0 {
		say("%s", query.SiteAgents.Rule())
	}
	for _, s := range d.Sources {
		say("From %s: %s (%s)%s%s", format.Cut(s.Source, view.MaxName), format.Plural(s.Visitors, "reader"),
			format.Cut(s.Agent, view.MaxName), changeOf(s.Change, s.Visitors), readsText(s.Reads))
	}
	if m := d.Missed; m != nil {
		say("Missed by agents: %s, %s with a sure redirect", format.Plural(m.Paths, "path"), format.Commas(m.Sure))
	}
	for _, m := range d.Misses {
		near := "no page is similar"
		if m.Nearest() != "" {
			near = "most similar page " + format.Cut(m.Nearest(), view.MaxName)
		}
		say("Not there: %s, %s%s by %s; %s", m.Path, format.Plural(m.Requests, "request"),
			changeOf(m.Change, m.Requests), format.Cut(m.AgentsText(), view.MaxName), near)
	}
	for _, r := range d.Reports {
		for _, row := range r.Rows {
			say("%s", rowLine(r.Report, row))
		}
	}
	for _, j := range d.Jobs[:min(digestJobs, len(d.Jobs))] {
		say("Agent job %s: %s", format.Cut(cmp.Or(j.Title, j.Prompt), view.MaxName),
			cmp.Or(j.PRLink, view.Job{Result: j.Result}.StateText()))
	}
	if more := len(d.Jobs) - digestJobs; more > 0 {
		say("and %s", format.Plural(more, "more agent job"))
	}
	if d.Outcomes != nil {
		say("Readers after merges of the last %d days: %s", outcomes.Recent/(24*time.Hour), d.Outcomes.Sentence())
	}
	if !d.Settled {
		say(notSettled)
	}
	return lines
}

// rowLine is a row of a report: its name, its texts, its counts.
func rowLine(report analytics.Report, row view.DigestRow) string {
	var texts, counts []string
	for _, name := range slices.Concat([]string{"path"}, report.Shape().Names(analytics.Text)) {
		if text, has := row.Texts[name]; has {
			texts = append(texts, format.Cut(text, view.MaxName))
		}
	}
	for _, name := range report.Shape().Names(analytics.Count) {
		text := format.Commas(row.Counts[name]) + " " + name
		if name == report.Shape().Rank() {
			text += changeOf(row.Change, row.Counts[name])
		}
		counts = append(counts, text)
	}
	return fmt.Sprintf("Report %s, %s: %s", report, strings.Join(texts, ", "), strings.Join(counts, ", "))
}

// readsText says how often the agents of a source requested pages.
func readsText(reads *int64) string {
	if reads == nil {
		return ""
	}
	return fmt.Sprintf("; its agents made %s", format.Plural(*reads, "request"))
}

// notSettled is said of a week that is provisional.
const notSettled = "The week can still change a little."

// audienceLines are people and AI agents of a week, and the share of these.
func audienceLines(week view.Week) []string {
	people := fmt.Sprintf("People: %s%s", format.Commas(week.Totals.Human), change(week, analytics.Human))
	if week.People != nil {
		people += "; " + week.People.String()
	}
	share := "AI share: " + view.Percent(week.Totals.AI, week.Totals.Total)
	if week.Before != nil {
		share += fmt.Sprintf(" (%s the week before)", view.Percent(week.Before.AI, week.Before.Total))
	}
	lines := []string{
		people,
		fmt.Sprintf("AI agents: %s%s", format.Commas(week.Totals.AI), change(week, analytics.AI)),
		share,
	}
	if week.HumansBefore != nil {
		lines = append(lines, view.ModeChange(*week.HumansBefore, week.Humans, "this week"))
	}
	return lines
}

// headline is the project, the week and its readers.
func headline(week view.Week, project string) string {
	return fmt.Sprintf("%s, %s: %s%s", project,
		view.Days(analytics.Week, analytics.Window{From: week.From, To: week.To}),
		format.Plural(week.Totals.Total, "reader"), change(week, analytics.Everyone))
}

// change is the difference of one number from the week before, in words.
func change(week view.Week, audience analytics.Audience) string {
	if week.Before == nil {
		return ""
	}
	return changeText(week.Change.Of(audience), week.Before.Of(audience))
}

// changeOf is the difference of the number by which rows are ordered, in words.
func changeOf(change *int64, now int64) string {
	if change == nil {
		return ""
	}
	return changeText(*change, now-*change)
}

func changeText(by, before int64) string {
	text := view.Signed(by)
	if growth := view.Growth(before, before+by); growth != "" {
		text += ", " + growth
	}
	return " (" + text + ")"
}
