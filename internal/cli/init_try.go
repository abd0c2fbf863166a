package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/cli/setup"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/state"
)

// announce says what init will ask, and what that costs.
func (a *Program) announce(o *setup.Options, noKey bool) error {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return err
	}
	var asks []string
	if o.BaseURL == "" {
		asks = append(asks, "the base URL of the service")
	}
	if noKey {
		asks = append(asks, "an admin key")
	}
	if o.Projects == "" {
		asks = append(asks, "the project ids")
	}
	cost := "Each project is tried with one request, which counts against the quota."
	if o.NoCheck {
		cost = "It sends nothing."
	}
	text := render.NewText(a.Err)
	text.Line(0, "This writes settings to %s.", path)
	if o.BaseURL == "" {
		text.Line(0, "Your own site has access logs instead: answer the first question with: site")
	}
	if n := len(asks); n > 0 {
		listed := asks[n-1]
		if n > 1 {
			listed = strings.Join(asks[:n-1], ", ") + " and " + listed
		}
		text.Line(0, "It asks for %s, which your platform's dashboard shows.", listed)
	}
	text.Line(0, "%s Nothing is written until all is well; Ctrl-C leaves nothing behind.", cost)
	text.Line(0, "")
	return text.Err()
}

// askMissing asks for missing settings until each answer is valid.
func askMissing(ctx context.Context, p *setup.Prompter, o *setup.Options, needKey bool) (err error) {
	if o.BaseURL == "" {
		if err = askURL(ctx, p, o, os.Getenv("DOCGAUGE_BASE_URL")); err != nil || o.BaseURL == setup.OwnSite {
			return err
		}
	}
	if needKey {
		if err = askKey(ctx, p, o); err != nil {
			return err
		}
	}
	if o.Projects == "" {
		o.Projects, err = p.Line(ctx, "Project ids, comma-separated", os.Getenv("DOCGAUGE_PROJECTS"),
			config.CheckProjects)
	}
	return err
}

func askURL(ctx context.Context, p *setup.Prompter, o *setup.Options, byDefault string) (err error) {
	o.BaseURL, err = p.Line(ctx, "Base URL of the service", byDefault, func(text string) error {
		if text == setup.OwnSite && byDefault == "" {
			return nil
		}
		_, err := docsapi.ParseBaseURL(text)
		return err
	})
	return err
}

func askKey(ctx context.Context, p *setup.Prompter, o *setup.Options) (err error) {
	o.Key, err = p.Secret(ctx, "Admin key (DOCGAUGE_API_KEY), from the API keys page", docsapi.CheckKey)
	return err
}

// askInstead asks for the ids that replace a project's; the others stay.
func askInstead(ctx context.Context, p *setup.Prompter, o *setup.Options, project string, all config.Projects) error {
	others := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == project })
	question := "Project ids instead of " + project
	if len(others) > 0 {
		question += " (Enter leaves it out)"
	}
	with := func(ids string) string {
		return strings.Join(slices.Concat(others, strings.FieldsFunc(ids, func(r rune) bool { return r == ',' })), ",")
	}
	ids, err := p.Line(ctx, question, "", func(ids string) error { return config.CheckProjects(with(ids)) })
	o.Projects = with(ids)
	return err
}

// trial tries the answers with the service, and asks again for those that failed.
type trial struct {
	program  *Program
	options  *setup.Options
	terminal *os.File // nil: standard input is not a terminal, so failures end the run

	// db is the state that the requests are charged to: the state of the settings if there is one,
	// or else a temporary state. A state made here could belong to another user than the exports.
	db   *state.DB
	temp *durable.Temp
	// sent counts the requests that only the temporary state knows of.
	sent int
	// works are the projects that were answered.
	works map[string]bool
}

func (t *trial) close() (err error) {
	if t.db != nil {
		err = t.db.Close()
	}
	if t.temp != nil {
		err = errors.Join(err, t.temp.Remove())
	}
	return err
}

// run returns the text of the file and its settings, which work.
func (t *trial) run(ctx context.Context) (text string, c config.Config, err error) {
	for {
		if text, err = t.options.Text(); err != nil {
			return text, c, err
		}
		if c, err = t.options.Adopt(&t.program.Console, text); err != nil {
			return text, c, err
		}
		if err = t.open(ctx, c); err != nil || t.options.NoCheck {
			return text, c, err
		}
		failed, err := t.try(ctx, c)
		if err != nil || failed == nil {
			return text, c, err
		}
		// A key that another project accepts is good: the service refuses the project.
		badKey := docsapi.IsUnauthorized(failed.Cause) && !slices.Contains(slices.Collect(maps.Values(t.works)), true)
		if t.terminal == nil || badKey && t.options.KeyFile != "" {
			return text, c, t.options.NotWritten(&t.program.Console)
		}
		err = setup.Prompt(&t.program.Console, t.terminal, func(p *setup.Prompter) error {
			switch {
			case badKey:
				return askKey(ctx, p, t.options)
			case docsapi.IsNotFound(failed.Cause), docsapi.IsUnauthorized(failed.Cause):
				return askInstead(ctx, p, t.options, failed.Project, c.Projects)
			}
			return askURL(ctx, p, t.options, t.options.BaseURL)
		})
		if err != nil {
			return text, c, err
		}
	}
}

// open opens the state, once.
func (t *trial) open(ctx context.Context, c config.Config) (err error) {
	if t.db != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.StateDir, state.FileName)); !errors.Is(err, fs.ErrNotExist) {
		if t.db, err = state.OpenUnmigrated(c.StateDir); err != nil {
			return err
		}
		return checkOwners(ctx, t.db, c)
	}
	if t.temp, err = durable.NewTemp("", "docgauge-init"); err != nil {
		return err
	}
	t.db, err = state.OpenUnmigrated(t.temp.Path)
	return err
}

// checkOwners refuses a state whose ledger has none of the projects: it probably belongs to another organisation,
// which has another quota.
func checkOwners(ctx context.Context, db *state.DB, c config.Config) error {
	entries, err := db.Entries(ctx)
	if err != nil {
		return err
	}
	var has []string
	for _, e := range entries {
		if slices.Contains(c.Projects, e.Project) {
			return nil
		}
		has = append(has, e.Project)
	}
	if len(has) == 0 {
		return nil
	}
	slices.Sort(has)
	return input.Usagef("--dir: the state in %s has windows of %s, and of no project given here; "+
		"another organisation has another quota, and needs another --dir. If it is the same one, name one of "+
		"those projects too", c.StateDir, strings.Join(slices.Compact(has), ", "))
}

// try requests the newest day of each project that has not been answered, and returns the first that
// failed, nil for none. A budget that is used up does not count as a failure.
func (t *trial) try(ctx context.Context, c config.Config) (failed *render.Finding, err error) {
	a := t.program
	client, err := app.NewAPI(c, t.db, a.Logger(c), a.Now, 0, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Flush(context.WithoutCancel(ctx))) }()
	check := &checker{a, c, render.NewFindings(a.Out, false)}
	for _, project := range c.Projects {
		if t.works[project] {
			continue
		}
		f, err := check.tryProject(ctx, t.db, client, project)
		if err != nil {
			return nil, err
		}
		if check.found.Add(f); t.temp != nil && f.Result != render.Skip && !docsapi.IsNotSent(f.Cause) {
			t.sent++
		}
		if t.works[project] = f.Result != render.Fail; !t.works[project] && failed == nil {
			failed = &f
		}
		if failed != nil && !docsapi.IsNotFound(failed.Cause) && !docsapi.IsUnauthorized(failed.Cause) {
			break // the next project would meet the same
		}
	}
	return failed, check.found.Err()
}

// wantsNumbers reports whether to export once: --export says so, or the answer to a question. The
// files of a service must belong to its user, so that it is not asked for.
func (a *Program) wantsNumbers(ctx context.Context, o setup.Options, terminal *os.File) (bool, error) {
	if o.Export || o.NoCheck || o.Unit != "" || terminal == nil {
		return o.Export, nil
	}
	var answer string
	err := setup.Prompt(&a.Console, terminal, func(p *setup.Prompter) (err error) {
		answer, err = p.Line(ctx, "Read the first numbers now? y or n", "n", func(answer string) error {
			if answer = strings.ToLower(answer); answer == "y" || answer == "n" {
				return nil
			}
			return errors.New("want y or n")
		})
		return err
	})
	if errors.Is(err, io.EOF) { // Ctrl-C, Ctrl-D: the file is written
		return false, nil
	}
	return strings.EqualFold(answer, "y"), err
}

// firstNumbers exports once, and shows the most read pages. The requests that init sent count.
func (a *Program) firstNumbers(ctx context.Context, c config.Config, sent int) error {
	db, err := state.Open(c.StateDir)
	if err != nil {
		return err
	}
	log := state.BudgetLog{DB: db, Name: coverage.AnalyticsBudget, Span: budget.Span,
		Unanswered: time.Duration(c.Timeout), Now: a.Now}
	for ; sent > 0 && err == nil; sent-- {
		_, _, _, err = log.Charge(ctx, int(c.Budget), 1, 0, nil)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	if err := a.export(ctx, a.terminalLevel(c), export.Options{}, false); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	top := a.topCommand()
	top.SetArgs([]string{"-n", "10"})
	top.SilenceErrors, top.SilenceUsage = true, true
	return top.ExecuteContext(ctx)
}
