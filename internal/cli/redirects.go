package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/git"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/state"
)

type redirectsOptions struct {
	archive                    archiveOptions
	repo, write, audit, prompt string
	pull                       bool
	last                       int
}

func (a *Program) redirectsCommand() *cobra.Command {
	var o redirectsOptions
	cmd := &cobra.Command{
		Use:   "redirects [FILE]",
		Short: "propose redirects for paths that agents do not find",
		Long: `redirects lists the paths that agents asked for in the last windows and that are
not there, each with the page to which it should lead, if there is one. It needs
windows of the report agents, and uses no language model.

sure     a page was renamed (git knows, with --repo), other redirects lead from
         the same folder to the same folder, or only the spelling differs
likely   one page has the words or the name, or the version or language
         differs: a person should look
none     no page is like it, the page was deleted, or scanners ask for it

--repo, or DOCGAUGE_SITE_REPO, is the site's repository: a clone with its
history (git clone without --depth), or in DOCGAUGE_SITE_REPO a URL, which is
fetched into DOCGAUGE_STATE_DIR. Without it there are no renames.

--write adds the sure ones to FILE in the format mintlify (docs.json), vercel
(vercel.json), netlify (_redirects) or nginx (a map of paths). Nothing else in
FILE changes, and a second time nothing does. Redirects that would be a loop, a
chain or never met are refused and listed. --audit lists the rules of FILE that
are never met (shadowed), lead to no page (dead), to another rule (chained) or
to themselves (loop), and the page to which they should lead, if renames or
other rules show it.

--pull-request does not change FILE here, but adds them to FILE on top of the
newest commit of DOCGAUGE_SITE_REPO, pushes that as docgauge/redirects-PROJECT,
and opens a pull request, or updates the open one. The likely ones are a list in
its text, or with --prompt a prompt file for an agent. DOCGAUGE_SITE_CODE_HOST,
_TOKEN and _PULL_REQUEST_* are as for agent jobs. A branch with commits of
others is not replaced. While DOCGAUGE_MAX_OPEN_PULL_REQUESTS or
DOCGAUGE_MAX_REVIEW_AGE is reached, none is opened, and the exit code is 1.

It reads the Parquet archive, DOCGAUGE_PARQUET_URL or --archive, sends no
request to the service, and changes FILE alone. It keeps in DOCGAUGE_STATE_DIR
when the redirects of FILE began, by its commits: docgauge outcomes shows what
each did, top --misses which are still asked for.

` + console.ReadingExitCodes,
		Example: `  docgauge redirects
  docgauge redirects --repo ~/docs
  docgauge redirects --repo ~/docs --write mintlify ~/docs/docs.json
  docgauge redirects --write netlify public/_redirects --pull-request
  docgauge redirects --audit netlify public/_redirects
  docgauge redirects --json | jq '.[] | select(.grade == "likely")'`,
		Args: input.OptionalArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.redirects(cmd.Context(), o, strings.Join(args, ""))
		},
	}
	o.archive.flags(cmd, string(analytics.Day))
	f := cmd.Flags()
	f.StringVar(&o.repo, "repo", "", "`directory` of a clone of the site's repository (default: DOCGAUGE_SITE_REPO)")
	f.BoolVar(&o.pull, "pull-request", false, "add them in a pull request; FILE is a path in the repository")
	f.StringVar(&o.prompt, "prompt", "", "write the likely ones to a new prompt `file`, not into the pull request")
	f.StringVar(&o.write, "write", "", "add the sure ones to FILE, of this `format`")
	f.StringVar(&o.audit, "audit", "", "list the rules of FILE, of this `format`, with a problem")
	f.IntVar(&o.last, "last", query.MissedWindows, "how many windows to read, without those that overlap a newer one")
	return cmd
}

// check returns the format of FILE, empty without one.
func (o redirectsOptions) check(file string) (redirects.Format, error) {
	named := redirects.Format(cmp.Or(o.write, o.audit))
	switch {
	case o.write != "" && o.audit != "":
		return "", input.Usage(errors.New("--write, --audit: want one of the two"))
	case named != "" && !slices.Contains(redirects.Formats, named):
		return "", input.Usagef("--write, --audit: format %.20q: want mintlify, vercel, netlify or nginx", named)
	case (named == "") != (file == ""):
		return "", input.Usage(errors.New("want --write FORMAT FILE, --audit FORMAT FILE, or neither format nor file"))
	case o.pull && (o.write == "" || o.repo != ""):
		return "", input.Usage(errors.New("--pull-request: want --write FORMAT FILE with it, and not --repo: it needs " +
			"the repository in DOCGAUGE_SITE_REPO"))
	case o.prompt != "" && !o.pull:
		return "", input.Usage(errors.New("--prompt: want --pull-request with it"))
	case o.last < 1:
		return "", input.Usagef("--last %d: want 1 or more", o.last)
	}
	return named, nil
}

func (a *Program) redirects(ctx context.Context, o redirectsOptions, file string) (err error) {
	named, err := o.check(file)
	if err != nil {
		return err
	}
	from, err := a.openArchive(o.archive, analytics.AgentsReport)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	all, failed := query.Missed(ctx, from, from.selection, o.last)
	if len(all) == 0 {
		return asUsageError(failed)
	}
	if (o.repo != "" || named != "") && len(all) > 1 {
		return input.Usagef("--project: want one project with --repo, --write or --audit, not %d", len(all))
	}
	var site redirects.Site
	var rules *redirects.File
	if named != "" && !o.pull {
		if rules, err = readRules(named, file, o.write != ""); err != nil {
			return err
		}
		site.Rules = rules.Rules
	}
	proposals := []redirects.Proposal{}
	var repo *siteRepo
	for _, missed := range all {
		if repo, err = a.openSiteRepo(ctx, o, from.config, missed.Project); err != nil {
			return err
		}
		defer func(r *siteRepo) { err = errors.Join(err, r.Close()) }(repo)
		if site.Pages = missed.Pages; o.pull {
			if rules, err = repo.copied.Rules(ctx, named, file); err != nil {
				return err
			}
			site.Rules = rules.Rules
		}
		if site.History, err = repo.history(ctx, a); err != nil {
			return err
		}
		proposals = append(proposals, redirects.Propose(missed.Misses, site)...)
	}
	switch {
	case o.audit != "":
		findings := append([]redirects.Finding{}, rules.Audit(site)...)
		err = o.archive.print.Write(a.Out, findings, func() error { return findingsCSV(a.Out, findings) },
			func() error { return printAudit(a.Out, file, len(rules.Rules), findings) })
	case o.pull:
		err = a.proposeRules(ctx, o, file, rules, proposals, repo, from.config)
	case o.write != "":
		err = a.writeRules(o, file, rules, proposals)
	default:
		err = o.archive.print.Write(a.Out, proposals, func() error { return proposalsCSV(a.Out, proposals) },
			func() error { return printProposals(a.Out, all, proposals, a.Wording(from.config)) })
	}
	if named != "" {
		err = errors.Join(err, rememberRules(ctx, from.config.StateDir, repo, named, file, o.pull))
	}
	return errors.Join(err, failed)
}

// rememberRules keeps in the state since when the file has its rules, for outcomes. A file outside of a repository has
// no history.
func rememberRules(ctx context.Context, dir string, repo *siteRepo, named redirects.Format, file string, pull bool) error {
	var rules []journal.Redirect
	var err error
	inRepo := file
	if pull {
		rules, err = repo.copied.Began(ctx, named, file)
	} else {
		clone := cloneIn(filepath.Dir(file))
		if inRepo, err = clone.Run(ctx, "rev-parse", "--show-prefix"); err == nil {
			inRepo += filepath.Base(file)
			rules, err = redirects.Began(ctx, clone, "HEAD", named, "./"+filepath.Base(file))
		}
		if _, outside := errors.AsType[git.Error](err); outside && ctx.Err() == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s: history: %w", file, err)
	}
	return state.SetRedirects(dir, repo.project, path.Clean(inRepo), rules)
}

func cloneIn(dir string) git.Client {
	return git.Client{Program: "git", Dir: dir, Env: slices.Concat(git.Environment(git.Ordinary), git.Variables)}
}

// siteRepo is the repository of a project's site: a clone on this machine, a copy of it, or none.
type siteRepo struct {
	copied         *redirects.Copy // nil = none
	project, clone string
	host           *codehost.Opener // nil = branches alone
}

// Close releases the copy, if there is one.
func (r *siteRepo) Close() error {
	if r.copied == nil {
		return nil
	}
	return r.copied.Close()
}

// openSiteRepo opens --repo, or the repository that DOCGAUGE_SITE_REPO names for a project.
func (a *Program) openSiteRepo(
	ctx context.Context, o redirectsOptions, c config.Config, project string,
) (r *siteRepo, err error) {
	r = &siteRepo{project: project, clone: o.repo}
	var source, branch string
	for _, text := range format.List(c.SiteRepo) {
		owner, at, base := codehost.SplitSource(text)
		if source == "" && cmp.Or(owner, project) == project {
			source, branch = at, base
		}
	}
	if info, err := os.Stat(source); err == nil && info.IsDir() && !o.pull {
		r.clone = cmp.Or(r.clone, source)
	}
	named := func(err error) error {
		if err != nil {
			err = fmt.Errorf("DOCGAUGE_SITE_REPO: %s: %w", analytics.RedactUsers(cmp.Or(source, project)), err)
		}
		return err
	}
	switch {
	case source == "" && o.pull:
		return nil, input.Usagef("--pull-request: project %s has no repository in DOCGAUGE_SITE_REPO", project)
	case source == "" || r.clone != "":
		return r, nil
	}
	at, err := codehost.Locate(source, c.SiteCodeHost, c.SiteCodeHostURL)
	token := c.CodeHostToken()
	switch {
	case err != nil:
		return nil, input.Usage(named(err))
	case at.URL == "" && !o.pull: // on another machine
		return r, nil
	case at.Kind != "" && token == nil && o.pull:
		return nil, input.Usage(named(errors.New("needs DOCGAUGE_SITE_TOKEN, which may read the repository and open pull " +
			"requests")))
	}
	remote := redirects.Remote{URL: source, Branch: branch, Login: at.Login(token)}
	if at.URL == "" {
		remote.URL, err = filepath.Abs(source)
	} else if at.Kind != "" && token != nil {
		if r.host, err = codehost.NewOpener(at.Kind, at.Project, at.API, token, nil); err == nil {
			remote.Login = r.host.Login
		}
	}
	if err == nil {
		r.copied, err = redirects.Fetch(ctx, filepath.Join(c.StateDir, "redirects", project), remote)
	}
	if err != nil {
		return nil, named(err)
	}
	return r, nil
}

// history reads the renames of the repository.
func (r *siteRepo) history(ctx context.Context, a *Program) (h redirects.History, err error) {
	complete := true
	switch {
	case r.copied != nil:
		h, complete, err = r.copied.History(ctx)
	case r.clone != "":
		h, complete, err = redirects.ReadRepository(ctx, cloneIn(r.clone), "HEAD")
	}
	if err != nil {
		return h, fmt.Errorf("--repo, DOCGAUGE_SITE_REPO: history of %s: %w", cmp.Or(r.clone, "the repository"), err)
	}
	if !complete {
		a.Note("%s: the clone lacks older commits, so renames are missed: `git fetch --unshallow` brings them",
			cmp.Or(r.clone, "DOCGAUGE_SITE_REPO"))
	}
	return h, nil
}

// readRules reads a file of redirects, a new one if it is missing and isNew says that it may be.
func readRules(named redirects.Format, file string, isNew bool) (*redirects.File, error) {
	text, err := os.ReadFile(file)
	if err != nil && (!isNew || !os.IsNotExist(err)) {
		return nil, err
	}
	if len(text) > redirects.MaxFile {
		return nil, fmt.Errorf("%s has %d bytes: want at most %d", file, len(text), redirects.MaxFile)
	}
	rules, err := redirects.Parse(named, string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return rules, nil
}

// written is the result of --write and --pull-request. Its JSON keys are stable.
type written struct {
	File    string              `json:"file"`
	Added   []redirects.Rule    `json:"added"`
	Refused []redirects.Finding `json:"refused"`
	// Branch and Link are empty without --pull-request, and if nothing is to be added.
	Branch string `json:"branch,omitempty"`
	Link   string `json:"prLink,omitempty"`
}

func (a *Program) writeRules(
	o redirectsOptions, file string, rules *redirects.File, proposals []redirects.Proposal,
) error {
	text, added, refused := rules.Add(redirects.SureRules(proposals))
	if len(added) > 0 {
		publish := durable.RewriteFile
		if _, err := os.Stat(file); os.IsNotExist(err) {
			publish = func(path string, data []byte) error { return durable.WriteFile(path, data, 0o644) }
		}
		if err := publish(file, []byte(text)); err != nil {
			return err
		}
	}
	return a.printWritten(o, written{File: file, Added: added, Refused: refused},
		fmt.Sprintf("added %s", format.Plural(len(added), "redirect")))
}

// proposeRules opens or updates the pull request of a project.
func (a *Program) proposeRules(
	ctx context.Context, o redirectsOptions, file string, rules *redirects.File, proposals []redirects.Proposal,
	repo *siteRepo, c config.Config,
) (err error) {
	result, said := written{File: file}, "nothing to add"
	p := redirects.PullRequest{Project: repo.project, File: file, Proposals: proposals, WithoutLikely: o.prompt != "",
		Labels: format.List(c.SitePullLabels), Draft: c.SitePullDraft, Host: repo.host}
	p.Text, p.Added, result.Refused = rules.Add(redirects.SureRules(proposals))
	if result.Added = p.Added; len(p.Added) > 0 {
		db, err := state.OpenExisting(c.StateDir)
		if err != nil {
			return err
		}
		p.Full = errors.Join((&app.App{Config: c, State: db, Now: a.Now}).CheckReviews(ctx), db.Close())
		var pushed bool
		if result.Branch, result.Link, pushed, err = repo.copied.Propose(ctx, p); err != nil {
			return err
		}
		said = fmt.Sprintf("%s on branch %s", format.Plural(len(p.Added), "redirect"), result.Branch)
		if !pushed {
			said += ", as before"
		}
		if result.Link != "" {
			said += ": " + result.Link
		}
	}
	if text := redirects.Prompt(repo.project, file, proposals); o.prompt != "" && text != "" {
		if err := durable.CreateFile(o.prompt, []byte(text), 0o644); errors.Is(err, fs.ErrExist) {
			a.Note("--prompt: %s already exists and was not changed", o.prompt) // the queue may be at work on it
		} else if err != nil {
			return fmt.Errorf("--prompt: %w", err)
		}
	}
	return a.printWritten(o, result, said)
}

func (a *Program) printWritten(o redirectsOptions, result written, said string) error {
	result.Added = append([]redirects.Rule{}, result.Added...)
	result.Refused = append([]redirects.Finding{}, result.Refused...)
	return o.archive.print.Write(a.Out, result, func() error { return findingsCSV(a.Out, result.Refused) }, func() error {
		if result.Link == "" {
			said += "."
		}
		fmt.Fprintf(a.Out, "%s: %s\n", result.File, said)
		if len(result.Refused) == 0 {
			return nil
		}
		fmt.Fprintln(a.Out, "Not added:")
		return findingTable(result.Refused).Print(a.Out)
	})
}

func printProposals(w io.Writer, all []query.MissedPaths, proposals []redirects.Proposal, words render.Wording) error {
	text := render.NewText(w)
	for _, missed := range all {
		count := map[redirects.Grade]int{}
		table := render.NewTable(render.Column{Name: "missed path", Cut: render.CutMiddle}, render.Number("requests"),
			render.Column{Name: "grade"}, render.Column{Name: "page", Cut: render.CutMiddle},
			render.Column{Name: "last", Spare: true}, render.Column{Name: "why", Below: true},
			render.Column{Name: "asked by", Below: true})
		for _, p := range proposals {
			if p.Project == missed.Project {
				count[p.Grade]++
				table.Add(p.Path, format.Known(p.Requests), string(p.Grade), cmp.Or(p.Target, "-"), p.Last, p.Reason,
					strings.Join(p.Agents, ", "))
			}
		}
		text.Line(0, "%s, %s to %s: %s, of which %d sure, %d likely.", words.Names.Of(missed.Project), missed.From,
			missed.To-1, format.Plural(len(missed.Misses), "missed path"), count[redirects.Sure], count[redirects.Likely])
		if err := text.Err(); err != nil {
			return err
		}
		if len(missed.Misses) == 0 {
			continue
		}
		text.Line(0, "")
		if err := table.Print(w); err != nil {
			return err
		}
		text.Line(0, "")
	}
	return text.Err()
}

func proposalsCSV(w io.Writer, proposals []redirects.Proposal) error {
	rows := [][]string{{"project", "path", "target", "grade", "reason", "requests", "agents", "first", "last"}}
	for _, p := range proposals {
		rows = append(rows, []string{p.Project, p.Path, p.Target, string(p.Grade), p.Reason,
			strconv.FormatInt(p.Requests, 10), strings.Join(p.Agents, " "), p.First, p.Last})
	}
	return render.CSV(w, rows)
}

func printAudit(w io.Writer, file string, rules int, findings []redirects.Finding) error {
	fmt.Fprintf(w, "%s: %s, %d with a problem.\n", file, format.Plural(rules, "rule"), len(findings))
	if len(findings) == 0 {
		return nil
	}
	return findingTable(findings).Print(w)
}

func findingTable(findings []redirects.Finding) *render.Table {
	table := render.NewTable(render.Column{Name: "line", Right: true, Optional: true}, render.Column{Name: "problem"},
		render.Column{Name: "from", Cut: render.CutMiddle}, render.Column{Name: "to", Cut: render.CutMiddle},
		render.Column{Name: "page", Cut: render.CutMiddle, Optional: true},
		render.Column{Name: "why", Below: true})
	for _, f := range findings {
		line := ""
		if f.Line > 0 {
			line = strconv.Itoa(f.Line)
		}
		table.Add(line, f.Kind, f.From, f.To, f.Target, f.Reason)
	}
	return table
}

func findingsCSV(w io.Writer, findings []redirects.Finding) error {
	rows := [][]string{{"line", "from", "to", "kind", "reason", "target"}}
	for _, f := range findings {
		rows = append(rows, []string{strconv.Itoa(f.Line), f.From, f.To, f.Kind, f.Reason, f.Target})
	}
	return render.CSV(w, rows)
}
