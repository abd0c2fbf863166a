package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/ingest"
	"github.com/docgauge/docgauge/internal/site/logs"
	"github.com/docgauge/docgauge/internal/site/serve"
	"github.com/docgauge/docgauge/internal/web/server"
)

func (a commands) checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "try the settings, logs, directory and keys of a site",
		Long: `check validates the settings of site serve and then tries everything it needs,
also beside one that runs: each log (is it there and readable, does it follow
the format), the published addresses of agents, the directory and every file in
it, API keys, the addresses to listen on, and for agent jobs the jail, each
repository and the rights of the token. It changes nothing and calls no agent.

Every finding is reported in one run: ok, FAIL, or skip for what cannot be tried
now.

` + console.ReadingExitCodes,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

func (a commands) check(ctx context.Context, asJSON bool) error {
	cfg, s, err := a.readConfig()
	if err != nil {
		return err
	}
	found := render.NewFindings(a.Out, asJSON)
	projects := s.rules.Projects(s.sources)
	found.Found("configuration", format.Plural(len(projects), "project")+": "+strings.Join(projects, ", "), nil)
	found.Found("people", "counted as "+cfg.SiteHumans.Said()+" by DOCGAUGE_SITE_HUMANS", nil)
	repeated, unreadable, err := s.rules.Repeated(ctx, s.sources, a.Now)
	if err != nil {
		return err
	}
	for i, source := range s.sources {
		if name, ok := source.Pushed(); ok {
			found.Found("log", source.Where+": pushed to "+ingest.Prefix+name, nil)
			continue
		}
		t, err := s.rules.Try(ctx, source, a.Now)
		t.Findings = append(t.Findings, repeated[i]...)
		foundLog(found, source, t, cmp.Or(err, unreadable[i]))
	}
	for _, l := range s.rules.Ranges() {
		var err error
		if l.Stale {
			err = fmt.Errorf("%s: of %s, too old to verify anything: fetch it again", l.Name, format.Time(l.Created))
		}
		found.Found("ranges", fmt.Sprintf("%s: %s", l.Name, format.Plural(l.Prefixes, "network")), err)
	}
	if s.jobs != nil {
		if err := serve.TryJobs(ctx, s.jobs, a.Logger(cfg), found.Found); err != nil {
			return err
		}
	}
	used := tryStore(ctx, found, cfg.SiteDir)
	for i, o := range []server.Options{cfg.SiteServer(), cfg.SiteIngest(), cfg.SiteMetrics()} {
		name := [...]string{"API address", "ingest address", "metrics address"}[i]
		switch {
		case len(o.Addresses) == 0:
		case used:
			found.Add(render.Finding{Result: render.Skip, Check: name, Detail: o.Addresses[0] + ": site serve runs"})
		default:
			l, err := server.Listen(o)
			if err == nil {
				err = l.Close()
			}
			found.Found(name, o.Addresses[0], err)
		}
	}
	return found.End()
}

// foundLog adds what a log looks like, or why it cannot be read.
func foundLog(found *render.Findings, source logs.Source, t count.Tried, err error) {
	detail := source.Where
	if t.Files > 0 {
		detail += ": " + format.Plural(t.Files, "file")
	}
	if t.Lines > 0 {
		detail += fmt.Sprintf(", newest line of %s; %d of %d lines that were tried follow the format %s",
			format.Time(t.Newest), t.Parsed, t.Lines, t.Format)
	}
	if t.People.Claimed > 0 {
		detail += fmt.Sprintf("; people: %d confirmed to %d claimed; %s", t.People.Confirmed, t.People.Claimed,
			t.People.Evidence())
	}
	if t.Scripted() {
		detail += "; browsers ask for Markdown more often than for other pages: if the site's script fetches it, as " +
			"Docsify's does, DOCGAUGE_SITE_MARKDOWN=browser counts them as people"
	}
	if err != nil && !strings.HasPrefix(err.Error(), source.Where+":") {
		err = fmt.Errorf("%s: %w", source.Where, err)
	}
	isRight := true
	for _, f := range t.Findings {
		result := render.Warn
		if f.Ruins {
			isRight, result = false, render.Fail
		}
		found.Add(render.Finding{Result: result, Check: "log", Detail: source.Where + ": " + f.Text})
	}
	if isRight || err != nil {
		found.Found("log", detail, err)
	}
}

// tryStore tries the directory of a site, and reports whether a process collects into it.
func tryStore(ctx context.Context, found *render.Findings, dir string) (used bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		found.Found("directory", "", err)
		return false
	}
	store, err := facts.Attach(dir)
	if errors.Is(err, facts.ErrMissing) {
		found.Found("directory", dir+": empty; site serve makes it", writable(dir))
		found.Add(render.Finding{Result: render.Skip, Check: "keys", Detail: "docgauge site keys add makes the first one"})
		return false
	}
	detail := dir
	if err == nil {
		defer store.Close() //nolint:errcheck // it was only read
		if used, err = store.InUse(); used {
			detail += ": site serve collects into it"
		} else if err == nil {
			err = writable(dir)
		}
	}
	if found.Found("directory", detail, err); err != nil {
		return used
	}
	sources, err := store.Sources(ctx)
	for _, s := range sources {
		var views, lines int64
		for result, n := range s.Lines {
			if lines += n; result == "view" {
				views = n
			}
		}
		detail := fmt.Sprintf("%s: %s, %s", s.Name, format.Plural(lines, "line"), format.Plural(views, "view"))
		if s.PossiblyLost > 0 {
			detail += fmt.Sprintf("; lines may have been lost %s: it was emptied (copytruncate), cut, or replaced",
				format.Plural(s.PossiblyLost, "time"))
		}
		if n := s.Lines["late"]; n > 0 {
			detail += fmt.Sprintf("; %s of months that were closed already not counted: docgauge site count reads the log "+
				"alone, another DOCGAUGE_SITE_DIR reads all logs again", format.Plural(n, "line"))
		}
		found.Found("collected", detail, nil)
	}
	if err != nil {
		found.Found("collected", "", err)
	}
	problems, err := store.Verify(ctx)
	for _, problem := range problems {
		found.Found("facts", "", problem)
	}
	if err != nil || len(problems) == 0 {
		found.Found("facts", "every file is as it was written", err)
	}
	keys, err := store.APIKeys(ctx)
	if err == nil && len(keys) == 0 {
		err = errors.New("there is none: docgauge site keys add")
	}
	found.Found("keys", format.Plural(len(keys), "API key"), err)
	return used
}

// writable returns an error if a directory, or the nearest that exists above it, cannot be written to.
func writable(dir string) error {
	for {
		file, err := os.CreateTemp(dir, ".check-*")
		if errors.Is(err, os.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return err
		}
		return errors.Join(file.Close(), os.Remove(file.Name()))
	}
}
