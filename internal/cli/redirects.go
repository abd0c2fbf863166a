package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/git"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
)

// maxRedirectFile is the maximum size of a file of redirects, in bytes.
const maxRedirectFile = 8 << 20

type redirectsOptions struct {
	archive            archiveOptions
	repo, write, audit string
	last               int
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
likely   the words or the name are those of one page, or the version differs: a
         person should look
none     no page is like it, the page was deleted, or scanners ask for it

--repo, or a directory in DOCGAUGE_SITE_REPO, is a clone of the site's
repository. Without it there are no renames. It must have its history: git clone
without --depth.

--write adds the sure ones to FILE in the format mintlify (docs.json), vercel
(vercel.json), netlify (_redirects) or nginx (a map of paths). Nothing else in
FILE changes, and a second time nothing does. Redirects that would be a loop, a
chain or never met are refused and listed. --audit lists the rules of FILE that
are never met (shadowed), lead to no page (dead), to another rule (chained) or
to themselves (loop).

It reads the Parquet archive, DOCGAUGE_PARQUET_URL or --archive, sends no
request, and changes FILE alone.

` + console.ReadingExitCodes,
		Example: `  docgauge redirects
  docgauge redirects --repo ~/docs
  docgauge redirects --repo ~/docs --write mintlify ~/docs/docs.json
  docgauge redirects --audit netlify public/_redirects
  docgauge redirects --json | jq '.[] | select(.grade == "likely")'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.redirects(cmd.Context(), o, strings.Join(args, ""))
		},
	}
	o.archive.flags(cmd, string(analytics.Day))
	f := cmd.Flags()
	f.StringVar(&o.repo, "repo", "", "`directory` of a clone of the site's repository (default: DOCGAUGE_SITE_REPO)")
	f.StringVar(&o.write, "write", "", "add the sure ones to FILE, of this `format`")
	f.StringVar(&o.audit, "audit", "", "list the rules of FILE, of this `format`, with a problem")
	f.IntVar(&o.last, "last", 28, "how many windows to read")
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
	case o.last < 1:
		return "", input.Usagef("--last %d: want 1 or more", o.last)
	case analytics.Granularity(o.archive.window).RollingDays() > 0:
		return "", input.Usagef("--window %s: want day, week or month; these windows overlap, and requests would count "+
			"twice", o.archive.window)
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
	if named != "" {
		if rules, err = readRules(named, file); err != nil {
			return err
		}
		site.Rules = rules.Rules
	}
	proposals := []redirects.Proposal{}
	for _, missed := range all {
		site.Pages, site.History = missed.Pages, redirects.History{}
		if repo := cmp.Or(o.repo, siteClone(from.config.SiteRepo, missed.Project)); repo != "" {
			if site.History, err = a.readHistory(ctx, repo); err != nil {
				return err
			}
		}
		proposals = append(proposals, redirects.Propose(missed.Misses, site)...)
	}
	switch {
	case o.audit != "":
		findings := append([]redirects.Finding{}, rules.Audit(site)...)
		err = o.archive.print.Write(a.Out, findings, func() error { return findingsCSV(a.Out, findings) },
			func() error { return printAudit(a.Out, file, len(rules.Rules), findings) })
	case o.write != "":
		err = a.writeRules(o, file, rules, proposals)
	default:
		err = o.archive.print.Write(a.Out, proposals, func() error { return proposalsCSV(a.Out, proposals) },
			func() error { return printProposals(a.Out, all, proposals, a.Wording(from.config)) })
	}
	return errors.Join(err, failed)
}

// siteClone returns the directory that DOCGAUGE_SITE_REPO names for a project, empty if there is none or it is a URL.
func siteClone(repos, project string) string {
	for _, text := range format.List(repos) {
		owner, source, named := strings.Cut(text, "=")
		if !named {
			owner, source = project, text
		}
		source, _, _ = strings.Cut(source, "#")
		if info, err := os.Stat(source); owner == project && err == nil && info.IsDir() {
			return source
		}
	}
	return ""
}

// readHistory reads the history of a clone.
func (a *Program) readHistory(ctx context.Context, dir string) (redirects.History, error) {
	h, complete, err := redirects.ReadRepository(ctx, git.Client{Program: "git", Dir: dir,
		Env: slices.Concat(git.Environment(git.Ordinary), git.Variables)})
	if err != nil {
		return h, fmt.Errorf("--repo, DOCGAUGE_SITE_REPO: history of %s: %w", dir, err)
	}
	if !complete {
		a.Note("%s: the clone lacks older commits, so renames are missed: `git fetch --unshallow` brings them", dir)
	}
	return h, nil
}

func readRules(named redirects.Format, file string) (*redirects.File, error) {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if len(text) > maxRedirectFile {
		return nil, fmt.Errorf("%s has %d bytes: want at most %d", file, len(text), maxRedirectFile)
	}
	rules, err := redirects.Parse(named, string(text))
	if err != nil {
		return nil, fmt.Errorf("%s is no file of %s that docgauge can read: %w", file, named, err)
	}
	return rules, nil
}

// written is the result of --write. Its JSON keys are stable.
type written struct {
	File    string              `json:"file"`
	Added   []redirects.Rule    `json:"added"`
	Refused []redirects.Finding `json:"refused"`
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
	result := written{file, append([]redirects.Rule{}, added...), append([]redirects.Finding{}, refused...)}
	return o.archive.print.Write(a.Out, result, func() error { return findingsCSV(a.Out, refused) }, func() error {
		fmt.Fprintf(a.Out, "%s: added %s.\n", file, format.Plural(len(added), "redirect"))
		if len(refused) == 0 {
			return nil
		}
		fmt.Fprintln(a.Out, "Not added:")
		return findingTable(refused).Print(a.Out)
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
		if err := text.Err(); err != nil || len(missed.Misses) == 0 {
			return err
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
		render.Column{Name: "why", Below: true})
	for _, f := range findings {
		line := ""
		if f.Line > 0 {
			line = strconv.Itoa(f.Line)
		}
		table.Add(line, f.Kind, f.From, f.To, f.Reason)
	}
	return table
}

func findingsCSV(w io.Writer, findings []redirects.Finding) error {
	rows := [][]string{{"line", "from", "to", "kind", "reason"}}
	for _, f := range findings {
		rows = append(rows, []string{strconv.Itoa(f.Line), f.From, f.To, f.Kind, f.Reason})
	}
	return render.CSV(w, rows)
}
