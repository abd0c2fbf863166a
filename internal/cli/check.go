package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// expirySoon is when an expiring key is worth a warning.
const expirySoon = 7 * 24 * time.Hour

func (a *Program) checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "try the configuration, the state, each sink and the API",
		Long: `check validates the configuration and then tries everything an export needs: the
state directory, each sink (a file is written and removed), where metrics go,
and the API with one request for each of DOCGAUGE_REPORTS of each project, which
count against the budget. Every finding is reported in one run: ok, FAIL, warn
for numbers that cannot be right, or skip for what cannot be asked now because
the hour's budget is used up or the service has throttled us. Only FAIL counts
as a failure.

What the API answers tells docgauge plan how large a day is, before the first
export. Once, a further request asks for a window without a day, in which there
must be no visitors: the service could ignore the dates. A project or report
that was skipped because the service refused it, and that is answered now, is
read by the next export.

` + console.ExitCodes,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

// checker tries what an export needs.
type checker struct {
	program *Program
	config  config.Config
	found   *render.Findings
}

func (a *Program) check(ctx context.Context, asJSON bool) (err error) {
	cfg, err := a.Config(config.NeedProjects | config.NeedAPI | config.NeedServer)
	if err != nil {
		return err
	}
	c := &checker{a, cfg, render.NewFindings(a.Out, asJSON)}
	projects, windows := format.Plural(len(cfg.Projects), "project"), format.Plural(len(cfg.Windows), "kind")
	c.found.Found("configuration", projects+", "+windows+" of window", nil)
	opened, unopened, err := app.OpenCheck(cfg, a.Logger(cfg), a.Now)
	defer func() { err = errors.Join(err, opened.Close()) }()
	if err != nil {
		c.found.Found("sinks", "", err)
	}
	for _, s := range opened.Sinks {
		err := s.Check(ctx)
		if err == nil {
			err = opened.Misplaced(ctx, s)
		}
		c.found.Found("sink "+s.Name(), s.Location(), err)
	}
	dir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return err
	}
	if c.found.Found("state", dir, unopened); unopened == nil { // without the state no request may be sent
		if err := c.tryService(ctx, opened.State); err != nil {
			return err
		}
	}
	if cfg.Textfile != "" {
		c.found.Found("textfile", cfg.Textfile, exporter.TryTextfile(cfg.Textfile))
	}
	if cfg.PushgatewayURL != "" {
		c.found.Found("pushgateway", "ready", exporter.CheckPushgateway(ctx, string(cfg.PushgatewayURL)))
	}
	if date := cfg.APIKeyExpires.Date; cfg.APIKeyExpires.Set {
		detail, err := date.String(), error(nil)
		if left := date.Time().Sub(a.Now()); left <= 0 {
			err = fmt.Errorf("DOCGAUGE_API_KEY expired on %s: make a new key on the API keys page", date)
		} else if left < expirySoon {
			detail = fmt.Sprintf("%s, in %d days: make a new key soon", date, int(left.Hours()/24))
		}
		c.found.Found("key expiry", detail, err)
	}
	return c.found.End()
}

// tryService requests the newest day of each project and report. An error comes from the state.
func (c *checker) tryService(ctx context.Context, db *state.DB) (err error) {
	client, err := app.NewAPI(c.config, db, c.program.Logger(c.config), c.program.Now, 0, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Flush(context.WithoutCancel(ctx))) }()
	answered := ""
	var refused []render.Finding // whether the key is refused, or the project, the answers for the other projects show
	for _, project := range c.config.Projects {
		f, err := c.tryProject(ctx, db, client, project)
		if err != nil {
			return err
		}
		if docsapi.IsUnauthorized(f.Cause) {
			refused = append(refused, f)
			continue
		}
		if c.found.Add(f); f.Result != render.OK {
			continue
		}
		answered = cmp.Or(answered, project)
		for _, report := range c.config.Reports {
			if report != analytics.VisitorsReport {
				f, err := c.tryReport(ctx, db, client, schedule.Source{Project: project, Report: report})
				if err != nil {
					return err
				}
				c.found.Add(f)
			}
		}
	}
	for _, f := range refused {
		if answered != "" {
			f.Detail = export.RefusedText(schedule.Source{Project: f.Project}, f.Cause)
		}
		c.found.Add(f)
	}
	switch {
	case answered != "":
		return c.tryDates(ctx, db, client, answered)
	case refused != nil:
		client.RefuseKey()
	}
	return nil
}

// tryReport reads the first row of a report of the newest day, with one request. An error comes from the state.
func (c *checker) tryReport(
	ctx context.Context, db *state.DB, client *app.API, source schedule.Source,
) (f render.Finding, err error) {
	f = render.Finding{Result: render.OK, Check: "api", Project: source.Project, Detail: "report " + source.Report.String()}
	day := schedule.Newest(analytics.Day, analytics.DateOf(c.program.Now()))
	_, err = client.Client.Page(ctx, docsapi.PageQuery{
		Report: source.Report, Project: source.Project, Window: day, Limit: 1,
	})
	if err == nil {
		return f, c.forgive(ctx, db, source)
	}
	name := f.Detail
	f, err = c.unanswered(ctx, db, client, f, err)
	switch failed, ok := errors.AsType[*docsapi.Error](f.Cause); {
	case docsapi.IsUnauthorized(f.Cause):
		f.Detail = export.RefusedText(source, f.Cause)
	case ok && failed.Outcome == docsapi.Permanent && failed.Status != http.StatusOK:
		f.Detail = export.LackingText(source, failed)
	default:
		f.Detail = name + ": " + f.Detail
	}
	return f, err
}

// forgive lets the next export ask for a source that was skipped because the service lacked or refused it.
func (c *checker) forgive(ctx context.Context, db *state.DB, source schedule.Source) error {
	facts, err := db.Movements(ctx)
	for _, m := range facts {
		if of := (schedule.Source{Project: m.Project, Report: m.Report}); of == source && m.Granularity == "" &&
			schedule.Fact(m.Kind).IsFault() {
			m.Times, m.At = 0, time.Unix(0, 0)
			err = errors.Join(err, db.SetMovement(ctx, m))
		}
	}
	return err
}

// tryDates asks for a window without a day, once: readers in it show that the service ignores the dates, or that its
// dateTo is inclusive. Many services refuse such a window; then nothing is known. An error comes from the state.
func (c *checker) tryDates(ctx context.Context, db *state.DB, client *app.API, project string) error {
	facts, err := db.Movements(ctx)
	if err != nil || slices.ContainsFunc(facts, func(m state.Movement) bool {
		return m.Project == project && m.Kind == string(schedule.DatesHold) && m.Times == 1
	}) {
		return err
	}
	day := schedule.Newest(analytics.Day, analytics.DateOf(c.program.Now()))
	page, err := client.Client.Page(ctx, docsapi.PageQuery{
		Project: project, Window: analytics.Window{From: day.From, To: day.From}, Limit: 1,
	})
	failed, isAPI := errors.AsType[*docsapi.Error](err)
	switch {
	case err == nil && (page.Totals != analytics.Totals{} || len(page.Rows) > 0):
		c.found.Add(render.Finding{Result: render.Warn, Check: "api", Project: project, Detail: fmt.Sprintf("the service has %s "+
			"visitors from %s to before the same day, where there can be none: it ignores the dates, or counts the "+
			"day of dateTo too. Then each window has the visitors of other days: ask its operator before you use "+
			"the numbers", format.Commas(page.Totals.Total), day.From)})
		return nil
	case err != nil && (!isAPI || failed.Outcome != docsapi.Permanent || docsapi.IsNotSent(err)):
		return nil //nolint:nilerr // the next check asks
	}
	return db.SetMovement(ctx, state.Movement{
		Project: project, Kind: string(schedule.DatesHold), Times: 1, At: c.program.Now(),
	})
}

// unanswered returns the finding of a request that failed. An error comes from the state.
func (c *checker) unanswered(
	ctx context.Context, db *state.DB, client *app.API, f render.Finding, failure error,
) (render.Finding, error) {
	now := c.program.Now()
	left, err := coverage.Remaining(ctx, db, coverage.AnalyticsBudget, int(c.config.Budget), now)
	if err != nil {
		return f, err
	}
	if docsapi.IsThrottled(failure) || docsapi.IsNotSent(failure) && !left.Next.IsZero() {
		f.Result, f.Detail = render.Skip, "not now: the budget is "+left.String()
		at, err := client.LastAnswer(ctx)
		if err == nil && !at.IsZero() {
			f.Detail += " (last answer with this key: " + format.Clock(at, now) + ")"
		}
		return f, err
	}
	f.Result, f.Detail, f.Cause = render.Fail, failure.Error(), failure
	if e, ok := errors.AsType[*docsapi.Error](failure); ok {
		f.Detail = e.Short()
	}
	return f, nil
}

// tryProject reads the first page of the project's newest day, with one request, and records
// its size, and from which day on there is data, for the plan. An error comes from the state.
func (c *checker) tryProject(
	ctx context.Context, db *state.DB, client *app.API, project string,
) (f render.Finding, err error) {
	f, now := render.Finding{Result: render.OK, Check: "api", Project: project}, c.program.Now()
	day := schedule.Newest(analytics.Day, analytics.DateOf(now))
	page, err := client.Client.Page(ctx, docsapi.PageQuery{Project: project, Window: day})
	if err != nil {
		return c.unanswered(ctx, db, client, f, err)
	}
	if err := c.forgive(ctx, db, schedule.Source{Project: project}); err != nil {
		return f, err
	}
	key := analytics.Key{Project: project, Granularity: analytics.Day, Window: day}
	f.Detail = fmt.Sprintf("%s visitors on %s, on %s", format.Commas(page.Totals.Total),
		c.program.Wording(c.config).Days(key), format.Plural(len(page.Rows), "page"))
	pages := 1
	if page.HasMore {
		f.Detail += " at least"
		pages = 2
	}
	if page.Humans == analytics.Confirmed { // else as platforms count that trust the name
		f.Detail += "; people are counted as confirmed"
	}
	if from := page.DataFrom; from != nil {
		switch {
		case *from == analytics.NoData:
			f.Detail += "; the service has no data yet"
		case day.From < *from:
			f.Detail += fmt.Sprintf("; the first day with data is %s", from)
		}
		if err := db.SetMovement(ctx, state.Movement{Project: project, Kind: string(schedule.DataFrom),
			Times: schedule.DataNumber(from), At: now}); err != nil {
			return f, err
		}
	}
	return f, db.SetMovement(ctx, state.Movement{
		Project: project, Granularity: analytics.Day, Kind: string(schedule.DayPages), Times: pages, At: now,
	})
}
