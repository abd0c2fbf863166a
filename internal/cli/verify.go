package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/verify"
	"github.com/docgauge/docgauge/sinks"
)

type verifyOptions struct {
	sink, from, to, project string
	json, repair            bool
}

func (a *Program) verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "compare the ledger with what readers of each sink see",
		Long: `verify compares the ledger with every configured sink, window by window, without
a request to the service: windows that are missing or extra, another revision,
the number of rows, the site totals, a checksum over the rows, files that cannot
be read, and the two files of a window that disagree. It also compares verified
counts with each other: max(human, ai) <= total <= human + ai, no page above its
site, no day above its week or month. Where the service says by which mode it
counts people, human of settled windows must be the agents browser and
unconfirmed (claimed) or browser alone (confirmed), on the site and on each
page. A service that counts approximately may break these rules by itself; such
findings are called implausible, and nothing is damaged.

It reads everything that the sinks hold (ClickHouse adds it up on the server),
changes nothing, and can run beside docgauge serve. A window that waits for a
sink in the spool is not a finding. Verified pages that add up to less than
their site are a remark, not a finding: a service that counts approximately
causes them, too.

--repair repairs what it can: a sink is filled from another one that holds the
window whole, or from the archive at DOCGAUGE_PARQUET_URL, and a window that a
sink shows but the ledger lacks enters the ledger. A window that no sink holds
whole is due again; verify says how many requests that takes. It can be
interrupted and run again. --repair needs the state for itself.

Exit codes: 0 no findings; 1 findings, some are left after --repair, or there is
nothing to compare; 2 bad usage or configuration; 3 another process holds the
state (--repair only).`,
		Example: `  docgauge verify
  docgauge verify --sink clickhouse --from 2026-10-01 --to 2026-11-01
  docgauge verify --repair`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.verify(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.sink, "sink", "", "only this of DOCGAUGE_SINKS")
	f.StringVar(&o.from, "from", "", "only windows inside [from,to): YYYY-MM-DD")
	f.StringVar(&o.to, "to", "", "the first day after those windows")
	f.StringVar(&o.project, "project", "", "comma-separated projects (default: those configured and those in the "+
		"ledger)")
	f.BoolVar(&o.json, "json", false, "print the findings as JSON")
	f.BoolVar(&o.repair, "repair", false, "repair what can be repaired without a request")
	return cmd
}

func (a *Program) verify(ctx context.Context, o verifyOptions) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	scope := sinks.Scope{}
	if scope.Within, err = coverage.ParseDates(o.from, o.to); err != nil {
		return input.Usage(err)
	}
	if o.sink != "" && !slices.Contains(c.Sinks, o.sink) {
		return input.Usagef("--sink %.40q is not in DOCGAUGE_SINKS (%s)", o.sink, strings.Join(c.Sinks, ","))
	}
	open := app.OpenReading
	if o.repair {
		open = app.OpenLedger
	}
	opened, err := open(c, a.Logger(c), a.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if scope.Projects, err = o.selectedProjects(ctx, c, opened); err != nil {
		return err
	}
	v := &verify.Verifier{
		Ledger: opened.State, Sinks: opened.Sinks, Only: o.sink, Scope: scope, AllUnreadable: o.project == "",
		InSpool: opened.InSpool, Planned: coverage.Reach(c, a.Now()), Now: opened.Now, Log: opened.Log,
	}
	if !slices.Contains(c.Sinks, config.SinkParquet) {
		if v.Archive, err = app.OpenArchive(c.ParquetURL, analytics.Reports...); err != nil {
			return fmt.Errorf("DOCGAUGE_PARQUET_URL: %w", err)
		}
		defer func() { err = errors.Join(err, v.Archive.Close()) }()
	}
	report, err := verifyOrRepair(ctx, opened, v, o.repair)
	if err == nil {
		err = comparedNothing(report, scope)
	}
	if err != nil {
		return err
	}
	err = a.Print(o.json, report, func() error { return printVerification(report, a.Out, a.Err) })
	left := len(report.Findings)
	if report.Repair != nil {
		left += len(report.Repair.Due) + len(report.Repair.Errors)
	}
	if err == nil && left > 0 {
		return render.ErrReported
	}
	return err
}

// comparedNothing is an error if neither the ledger nor a sink has a window in scope: such a
// verification says nothing.
func comparedNothing(r verify.Report, scope sinks.Scope) error {
	shown := 0
	for _, n := range r.Shown {
		shown += n
	}
	switch {
	case r.Windows+shown+len(r.Findings)+len(r.Busy) > 0 || r.Repair != nil && r.Repair.Found > 0:
		return nil
	case scope.Within != analytics.Window{}:
		return input.Usagef("--from, --to: nothing was compared: "+
			"neither the ledger nor a sink has a window inside %s", scope.Within)
	}
	return errors.New("nothing was compared: neither the ledger nor a sink has a window; " +
		"`docgauge export` reads some, or set DOCGAUGE_STATE_DIR and the sinks as the export has them")
}

// selectedProjects returns the projects of --project, which the configuration, the ledger or a
// sink must know; by default those that are configured or in the ledger: other installations
// may use the same sinks.
func (o verifyOptions) selectedProjects(ctx context.Context, c config.Config, opened *app.App) ([]string, error) {
	if o.project == "" && len(c.Projects) == 0 {
		return nil, nil
	}
	known, err := coverage.KnownProjects(ctx, c, opened.State)
	if err != nil || o.project == "" {
		return known, err
	}
	for _, id := range format.List(o.project) {
		for _, s := range opened.Sinks {
			if query.CheckProjects(ctx, s, []string{id}) == nil {
				known = append(known, id)
			}
		}
	}
	return coverage.SelectProjects(o.project, known, "DOCGAUGE_PROJECTS, the ledger or a sink")
}

// verifyOrRepair reports the findings, or after a repair those that are left.
func verifyOrRepair(ctx context.Context, a *app.App, v *verify.Verifier, repair bool) (r verify.Report, err error) {
	if !repair {
		return v.Verify(ctx)
	}
	err = a.WithCopies(func(dir string) (err error) {
		v.Dir = dir
		r, err = v.Repair(ctx)
		return err
	})
	return r, err
}

func printVerification(r verify.Report, out, log io.Writer) error {
	if r.Repair != nil {
		wrong := render.NewText(log)
		for _, text := range r.Repair.Errors {
			wrong.Line(2, "docgauge: not mended: %s", text)
		}
	}
	text := render.NewText(out)
	for i, f := range slices.Concat(r.Findings, r.Remarks) {
		if i == 0 {
			text.Line(0, "%-11s  %-10s  %s", "kind", "sink", "window and problem")
		}
		window := "-"
		if f.Key != nil {
			window = f.Key.String()
		}
		text.Line(25, "%-11s  %-10s  %s", f.Kind, cmp.Or(f.Sink, "-"), window)
		text.Line(4, "    %s", f.Detail)
		if f.Advice != "" {
			text.Line(4, "    remedy: %s", f.Advice)
		}
	}
	if len(r.Findings)+len(r.Remarks) > 0 {
		text.Line(0, "")
	}
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(r.Shown)) {
		shown = append(shown, fmt.Sprintf("%s %s", name, format.Commas(int64(r.Shown[name]))))
	}
	done, left, remarks := "", "", ""
	if n := len(r.Remarks); n > 0 {
		remarks = ", " + format.Plural(n, "remark")
	}
	if r.Repair != nil {
		done = fmt.Sprintf("%s, %s mended; ", format.Plural(r.Repair.Found, "finding"),
			format.Plural(r.Repair.Mended, "window"))
		left = " left"
	}
	text.Line(2, "%s in the ledger; shown: %s; %s%s%s%s", format.Plural(r.Windows, "window"),
		strings.Join(shown, ", "), done, format.Plural(len(r.Findings), "finding"), left, remarks)
	switch {
	case r.Repair != nil && len(r.Repair.Due) > 0:
		text.Line(2, "due again, %s for the next export:", format.Plural(r.Requests, "request"))
		for _, key := range r.Repair.Due {
			text.Line(4, "  %s", key)
		}
	case r.Reread > 0:
		text.Line(2, "only a new reading mends %s: %s; --repair makes them due", format.Plural(r.Reread, "window"),
			format.Plural(r.Requests, "request"))
	}
	if r.Repair != nil && len(r.Repair.Waiting) > 0 {
		text.Line(2, "the next export delivers %s from the spool", format.Plural(len(r.Repair.Waiting), "window"))
	}
	if len(r.Busy) > 0 {
		text.Line(2, "%s being written during the comparison: verify them again later",
			format.Plural(len(r.Busy), "window"))
	}
	return text.Err()
}
