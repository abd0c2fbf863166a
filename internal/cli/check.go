package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// expirySoon is when an expiring key is worth a warning.
const expirySoon = 7 * 24 * time.Hour

func (a *Program) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "try the configuration, the state, each sink and the API",
		Long: `check validates the configuration and then tries everything an export needs: the
state directory, each sink (a file is written and removed), where metrics go, and the
API with one request, which counts against the budget. Every finding is reported in
one run.

` + exitCodes,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context()) },
	}
}

func (a *Program) check(ctx context.Context) (err error) {
	c, err := a.config(config.NeedProjects | config.NeedAPI | config.NeedServer)
	if err != nil {
		return err
	}
	a.finding("configuration", format.Plural(len(c.Projects), "project")+", "+format.Plural(len(c.Windows), "kind")+" of window", nil)
	failed := a.checkSinks(ctx, c)
	db, err := state.Open(c.StateDir)
	failed = a.finding("state", c.StateDir, err) || failed
	if err == nil {
		defer func() { err = errors.Join(err, db.Close()) }()
		said, err := a.checkAPI(ctx, c, db)
		failed = a.finding("api", said, err) || failed
	}
	failed = a.checkMetrics(ctx, c) || failed
	failed = a.checkExpiry(c) || failed
	if failed {
		return errSaid
	}
	return nil
}

// finding prints one result and reports whether it is a failure.
func (a *Program) finding(what, said string, err error) bool {
	if err != nil {
		fmt.Fprintf(a.Out, "FAIL  %-14s %v\n", what, err)
		return true
	}
	fmt.Fprintf(a.Out, "ok    %-14s %s\n", what, said)
	return false
}

func (a *Program) checkSinks(ctx context.Context, c config.Config) (failed bool) {
	stores, err := app.NewSinks(c)
	if err != nil {
		return a.finding("sinks", "", err)
	}
	for _, s := range stores {
		failed = a.finding("sink "+s.Name(), s.Location(), s.Check(ctx)) || failed
	}
	if err := app.CloseSinks(stores); err != nil {
		return a.finding("sinks", "", err)
	}
	return failed
}

// checkAPI reads the totals of the first project's newest day.
func (a *Program) checkAPI(ctx context.Context, c config.Config, db *state.DB) (said string, err error) {
	client, err := app.NewAPI(c, db, a.logger(c), a.now, 0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, client.Flush(context.WithoutCancel(ctx))) }()
	day := schedule.Newest(analytics.Day, analytics.DateOf(a.now()))
	page, err := client.Client.VisitorsPage(ctx, docsapi.VisitorsQuery{Project: c.Projects[0], Window: day, Limit: 1})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s answered for %s: %s visitors on %s", c.BaseURL, c.Projects[0], format.Commas(page.Totals.Total), day.From), nil
}

// checkMetrics tries where a run's metrics go.
func (a *Program) checkMetrics(ctx context.Context, c config.Config) (failed bool) {
	if c.Textfile != "" {
		failed = a.finding("textfile", c.Textfile, exporter.TryTextfile(c.Textfile))
	}
	if c.PushgatewayURL != "" {
		err := exporter.CheckPushgateway(ctx, string(c.PushgatewayURL))
		failed = a.finding("pushgateway", "ready", err) || failed
	}
	return failed
}

func (a *Program) checkExpiry(c config.Config) (failed bool) {
	if !c.APIKeyExpires.Set {
		return false
	}
	left := c.APIKeyExpires.Date.Time().Sub(a.now())
	switch {
	case left <= 0:
		return a.finding("key expiry", "", fmt.Errorf("DOCGAUGE_API_KEY expired on %s: make a new key on the API keys page", c.APIKeyExpires.Date))
	case left < expirySoon:
		return a.finding("key expiry", fmt.Sprintf("%s, in %d days: make a new key soon", c.APIKeyExpires.Date, int(left.Hours()/24)), nil)
	}
	return a.finding("key expiry", c.APIKeyExpires.Date.String(), nil)
}
