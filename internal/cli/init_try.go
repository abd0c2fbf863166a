package cli

import (
	"cmp"
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

	"golang.org/x/term"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/state"
)

// announce says what init will ask, and what that costs.
func (a *Program) announce(o *initOptions, noKey bool) error {
	path, err := filepath.Abs(o.path)
	if err != nil {
		return err
	}
	var asks []string
	if o.baseURL == "" {
		asks = append(asks, "the base URL of the service")
	}
	if noKey {
		asks = append(asks, "an admin key")
	}
	if o.projects == "" {
		asks = append(asks, "the project ids")
	}
	cost := "Each project is tried with one request, which counts against the quota."
	if o.noCheck {
		cost = "It sends nothing."
	}
	text := render.NewText(a.Err)
	text.Line(0, "This writes settings to %s.", path)
	if o.baseURL == "" {
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

func (a *Program) prompt(terminal *os.File, ask func(p *prompter) error) error {
	p, err := newPrompter(terminal)
	if err != nil {
		return err
	}
	if err = errors.Join(ask(p), p.restore()); err != nil {
		fmt.Fprintln(a.Err) // ends the line of the question
	}
	return err
}

// ask asks for missing settings until each answer is valid.
func (o *initOptions) ask(ctx context.Context, p *prompter, needKey bool) (err error) {
	if o.baseURL == "" {
		if err = o.askURL(ctx, p, os.Getenv("DOCGAUGE_BASE_URL")); err != nil || o.baseURL == ownSiteAnswer {
			return err
		}
	}
	if needKey {
		if err = o.askKey(ctx, p); err != nil {
			return err
		}
	}
	if o.projects == "" {
		o.projects, err = p.line(ctx, "Project ids, comma-separated", os.Getenv("DOCGAUGE_PROJECTS"),
			config.CheckProjects)
	}
	return err
}

func (o *initOptions) askURL(ctx context.Context, p *prompter, byDefault string) (err error) {
	o.baseURL, err = p.line(ctx, "Base URL of the service", byDefault, func(text string) error {
		if text == ownSiteAnswer && byDefault == "" {
			return nil
		}
		_, err := docsapi.ParseBaseURL(text)
		return err
	})
	return err
}

func (o *initOptions) askKey(ctx context.Context, p *prompter) (err error) {
	o.key, err = p.until(ctx, docsapi.CheckKey, func() (string, error) {
		key, err := p.terminal.ReadPassword("Admin key (DOCGAUGE_API_KEY), from the API keys page (not shown): ")
		return strings.TrimSpace(key), err
	})
	return err
}

// askInstead asks for the ids that replace a project's; the others stay.
func (o *initOptions) askInstead(ctx context.Context, p *prompter, project string, all config.Projects) error {
	others := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == project })
	question := "Project ids instead of " + project
	if len(others) > 0 {
		question += " (Enter leaves it out)"
	}
	with := func(ids string) string {
		return strings.Join(slices.Concat(others, strings.FieldsFunc(ids, func(r rune) bool { return r == ',' })), ",")
	}
	ids, err := p.line(ctx, question, "", func(ids string) error { return config.CheckProjects(with(ids)) })
	o.projects = with(ids)
	return err
}

// trial tries the answers with the service, and asks again for those that failed.
type trial struct {
	program  *Program
	options  *initOptions
	terminal *os.File // nil: standard input is not a terminal, so failures end the run

	// db is the state that the requests are charged to: the one of the settings if there is one, or
	// else a temporary one. A state made here could belong to another user than that of the exports.
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
		if text, err = t.options.text(); err != nil {
			return text, c, err
		}
		if c, err = t.program.adopt(*t.options, text); err != nil {
			return text, c, err
		}
		if err = t.open(ctx, c); err != nil || t.options.noCheck {
			return text, c, err
		}
		failed, err := t.try(ctx, c)
		if err != nil || failed == nil {
			return text, c, err
		}
		// A key that another project accepts is good: the service refuses the project.
		badKey := docsapi.IsUnauthorized(failed.Cause) && !slices.Contains(slices.Collect(maps.Values(t.works)), true)
		if t.terminal == nil || badKey && t.options.keyFile != "" {
			fmt.Fprintf(t.program.Err, "docgauge: %s is not written; correct what failed and run init again, or add "+
				"--no-check\n", t.options.path)
			return text, c, render.ErrReported
		}
		err = t.program.prompt(t.terminal, func(p *prompter) error {
			switch {
			case badKey:
				return t.options.askKey(ctx, p)
			case docsapi.IsNotFound(failed.Cause), docsapi.IsUnauthorized(failed.Cause):
				return t.options.askInstead(ctx, p, failed.Project, c.Projects)
			}
			return t.options.askURL(ctx, p, t.options.baseURL)
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

// checkOwners refuses a state whose ledger has none of the projects: it is probably that of another
// organisation, which has another quota.
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
func (a *Program) wantsNumbers(ctx context.Context, o initOptions, terminal *os.File) (bool, error) {
	if o.export || o.noCheck || o.unit != "" || terminal == nil {
		return o.export, nil
	}
	var answer string
	err := a.prompt(terminal, func(p *prompter) (err error) {
		answer, err = p.line(ctx, "Read the first numbers now? y or n", "n", func(answer string) error {
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

// prompter asks questions on a terminal, which is in raw mode until restore: input typed before
// a question about a secret is not shown either.
type prompter struct {
	terminal *term.Terminal
	restore  func() error
	width    int // 0 if it is not known
}

// newPrompter asks on a terminal, which restore gives back.
func newPrompter(in *os.File) (*prompter, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	p := &prompter{
		terminal: term.NewTerminal(in, ""),
		restore:  func() error { return term.Restore(int(in.Fd()), before) },
	}
	if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 {
		p.width = width
		_ = p.terminal.SetSize(width, height) // fails for no size
	}
	return p, nil
}

// line asks until check accepts the answer; no answer is the default.
func (p *prompter) line(ctx context.Context, question, byDefault string, check func(string) error) (string, error) {
	if byDefault != "" {
		question += " [" + byDefault + "]"
	}
	return p.until(ctx, check, func() (string, error) {
		p.terminal.SetPrompt(question + ": ")
		text, err := p.terminal.ReadLine()
		return cmp.Or(strings.TrimSpace(text), byDefault), err
	})
}

// until asks until check accepts an answer, or the context ends: a signal must not wait
// for the next line.
func (p *prompter) until(ctx context.Context, check func(string) error, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	for {
		answers := make(chan answer, 1)
		go func() {
			text, err := read()
			answers <- answer{text, err}
		}()
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case a := <-answers:
			if a.err != nil {
				return "", fmt.Errorf("not answered: %w", a.err) // Ctrl-C, Ctrl-D
			}
			err := check(a.text)
			if err == nil {
				return a.text, nil
			}
			p.say("  " + err.Error())
		}
	}
}

// say prints a line, which is wrapped.
func (p *prompter) say(line string) {
	text := []string{line}
	if p.width > 0 {
		text = render.Wrap(line, p.width-1, 2)
	}
	fmt.Fprintln(p.terminal, strings.Join(text, "\n"))
}
