package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/cli/setup"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/logs"
	"github.com/docgauge/docgauge/internal/site/serve"
)

// WellKnownLogs are where web servers write by default.
var WellKnownLogs = []string{"/var/log/nginx/access.log*", "/var/log/caddy/access*.log*",
	"/var/log/apache2/access.log*", "/var/log/httpd/access_log*"}

// initOptions are the flags of init, and what it was told besides.
type initOptions struct {
	setup.Options
	format    string      // DOCGAUGE_SITE_LOG_FORMAT, if it was asked for
	environ   [][2]string // settings of a site that the environment has
	fetchMode bool        // the logs have the header Sec-Fetch-Mode
	linked    string      // DOCGAUGE_SITE_HOSTS, as the links in the logs show it
}

// allHosts is the answer to the question for hosts that counts all of them.
const allHosts = "all"

// optional are settings that init does not ask for, as comments of the file of a site.
const optional = `
#DOCGAUGE_SITE_LOG_PROXIES=10.0.0.0/8
#DOCGAUGE_SITE_EXCLUDE=198.51.100.0/24,/internal/*,agent:UptimeRobot
`

// Init writes the settings of site serve and, with a key that it makes, the settings of the export.
func Init(ctx context.Context, c *console.Console, flags setup.Options, terminal *os.File) error {
	a, o := commands{c}, initOptions{Options: flags}
	if err := o.check(); err != nil {
		return err
	}
	if terminal != nil {
		text := render.NewText(a.Err)
		text.Line(0, "This counts the readers of your site, from the access logs of its web server. It writes the "+
			"settings of docgauge site serve to %s, and of the export to %s.", o.Site.Path, o.Path)
		text.Line(0, "It sends nothing. Nothing is written until all is well; Ctrl-C leaves nothing behind.")
		text.Line(0, "")
		if err := text.Err(); err != nil {
			return err
		}
	}
	cfg, project, since, err := a.try(ctx, &o, terminal)
	if err != nil {
		return err
	}
	return a.write(ctx, o, cfg, project, since)
}

// check completes the paths, and refuses files that exist.
func (o *initOptions) check() (err error) {
	if o.KeyFile != "" || o.KeyOnStdin || o.Export || o.BaseURL != "" && o.BaseURL != setup.OwnSite {
		return input.Usage(errors.New("--site-logs: not with --base-url, --api-key-file, --api-key-stdin and --export: " +
			"init makes the key of your own site, and its docgauge site serve must run before the first export"))
	}
	if o.Path, err = filepath.Abs(o.Path); err != nil {
		return err
	}
	beside := filepath.Dir(o.Path)
	if o.KeyFile = filepath.Join(beside, "site.key"); o.Unit != "" {
		o.KeyFile = filepath.Join(beside, o.UnitKey())
		o.Site.Dir = cmp.Or(o.Site.Dir, "/var/lib/docgauge-site")
	}
	o.Site.Path, err = filepath.Abs(cmp.Or(o.Site.Path, filepath.Join(beside, "site.env")))
	if err != nil {
		return err
	}
	if text, err := os.ReadFile(o.Site.Path); !errors.Is(err, fs.ErrNotExist) && string(text) != setup.SiteTemplate {
		return input.Usagef("--site-env-file: %s exists, and init replaces no file: name another", o.Site.Path)
	}
	for _, v := range config.Variables() {
		if value := os.Getenv(v.Name); strings.HasPrefix(v.Name, "DOCGAUGE_SITE_") && value != "" {
			o.environ = append(o.environ, [2]string{v.Name, value})
		}
	}
	if err := new(analytics.Humans).UnmarshalText([]byte(o.Site.Humans)); err != nil {
		return input.Usagef("--site-humans: %w", err)
	}
	if _, err := os.Lstat(o.KeyFile); !errors.Is(err, fs.ErrNotExist) {
		return input.Usagef("--env-file: beside it is a key, %s, and init replaces no file: name another "+
			"directory", o.KeyFile)
	}
	return nil
}

// try asks for what no flag says, until the logs are logs. It returns the settings of site serve,
// and the project and the first day of the export.
func (a commands) try(
	ctx context.Context, o *initOptions, terminal *os.File,
) (c config.Config, project string, since analytics.Date, err error) {
	ask := func(questions func(p *setup.Prompter) error) error {
		if terminal == nil {
			return nil
		}
		return setup.Prompt(a.Console, terminal, questions)
	}
	var tried count.Tried
	for done := false; !done; {
		if o.Site.Logs == "" {
			if err = ask(func(p *setup.Prompter) error { return o.askLogs(ctx, p) }); err != nil {
				return c, "", 0, err
			}
		}
		if tried, done, err = a.readLogs(ctx, o); err != nil {
			return c, "", 0, err
		}
		switch {
		case !done && terminal == nil:
			return c, "", 0, o.NotWritten(a.Console)
		case !done && tried.Lines == 0:
			o.Site.Logs = ""
		case !done:
			if err = ask(func(p *setup.Prompter) error { return o.askFormat(ctx, p) }); err != nil {
				return c, "", 0, err
			}
		}
	}
	byDefault := filepath.Join(o.Dir, "site")
	err = ask(func(p *setup.Prompter) error {
		if err := o.askSite(ctx, p, tried, byDefault); err != nil {
			return err
		}
		return o.askHumans(ctx, p)
	})
	if err != nil {
		return c, "", 0, err
	}
	said := render.NewText(a.Err)
	if terminal == nil && os.Getenv("DOCGAUGE_SITE_HOSTS") == "" {
		if o.linked = tried.LinkedHost(); o.linked != "" {
			said.Line(2, "docgauge: the log has no host; visits from %s, where most links are, come from the site itself: "+
				"DOCGAUGE_SITE_HOSTS of %s", o.linked, o.Site.Path)
		}
	}
	if terminal == nil && o.Site.Hosts == "" && len(tried.Hosts) > 1 {
		said.Line(2, "docgauge: the log has %s, which are counted as one site: --site-hosts picks some of them",
			hostList(tried.Hosts))
	}
	if tried.Lines > 0 && !tried.Accept {
		said.Line(2, "docgauge: the log lacks the header Accept: assistants that ask for Markdown with a browser's name "+
			"count as people; docs/site.md shows how to log it")
	}
	if mode := cmp.Or(o.Site.Humans, os.Getenv("DOCGAUGE_SITE_HUMANS")); mode == "" {
		o.Site.Humans = string(analytics.Claimed)
		if o.proposedHumans() == analytics.Confirmed {
			said.Line(2, "docgauge: all readers that call themselves browsers count as human; the log has the header "+
				"Sec-Fetch-Mode, so that --site-humans confirmed can leave out programs under a browser's name")
		}
	}
	if err := said.Err(); err != nil {
		return c, "", 0, err
	}
	if o.Site.Dir, err = filepath.Abs(cmp.Or(o.Site.Dir, os.Getenv("DOCGAUGE_SITE_DIR"), byDefault)); err != nil {
		return c, "", 0, err
	}
	if c, _, project, err = a.adopt(o); err != nil {
		return c, "", 0, err
	}
	if o.Names == "" {
		name := o.siteName(tried)
		if terminal == nil && name != "" && os.Getenv("DOCGAUGE_PROJECT_NAMES") == "" {
			o.Names = project + "=" + name
		}
		if err := ask(func(p *setup.Prompter) error { return o.AskNames(ctx, p, name, project) }); err != nil {
			return c, "", 0, err
		}
	}
	// Days before the first line had readers that no log has, and what is not kept is not served.
	since = analytics.DateOf(a.Now())
	if tried.Parsed > 0 {
		since = max(analytics.DateOf(tried.Oldest), serve.OldestDay(since, int(c.SiteRetention)))
	}
	return c, project, since, nil
}

func (o *initOptions) askLogs(ctx context.Context, p *setup.Prompter) (err error) {
	byDefault := os.Getenv("DOCGAUGE_SITE_LOGS")
	for _, glob := range WellKnownLogs {
		if found, err := filepath.Glob(glob); err == nil && len(found) > 0 {
			byDefault = cmp.Or(byDefault, glob)
		}
	}
	o.Site.Logs, err = p.Line(ctx, "Access logs, files or globs", byDefault, func(text string) error {
		all, err := logs.ParseSources(text)
		if err == nil && len(all) == 0 {
			err = errors.New("want the path of a log, like /var/log/nginx/access.log*")
		}
		return err
	})
	return err
}

// askFormat asks for the format of logs whose lines are not understood, or for other logs.
func (o *initOptions) askFormat(ctx context.Context, p *setup.Prompter) (err error) {
	o.format, err = p.Line(ctx, "Their format, like nginx:$remote_addr … (Enter: other logs)", "",
		func(text string) error {
			if text == "" {
				return nil
			}
			_, err := count.ParseRules(count.Settings{LogFormat: text}, nil)
			return err
		})
	if o.format == "" {
		o.Site.Logs = ""
	}
	return err
}

// siteName proposes a name for people: the host, if there is one.
func (o *initOptions) siteName(t count.Tried) string {
	hosts := format.List(o.Site.Hosts)
	switch {
	case len(hosts) == 1 && hosts[0] != allHosts:
		return hosts[0]
	case len(hosts) == 0 && len(t.Hosts) == 1:
		return byLines(t.Hosts)[0]
	case len(t.Hosts) == 0 && len(format.List(o.linked)) == 1:
		return o.linked
	}
	return ""
}

// askSite asks which hosts the site has, and where to keep who read what.
func (o *initOptions) askSite(ctx context.Context, p *setup.Prompter, t count.Tried, dir string) (err error) {
	if linked := t.LinkedHost(); linked != "" && os.Getenv("DOCGAUGE_SITE_HOSTS") == "" {
		p.Say("The log has no host. Most links to its pages are on " + linked + ".")
		o.linked, err = p.Line(ctx, "Hosts of this site, comma-separated", linked, func(text string) error {
			return new(config.Hosts).Decode(text)
		})
		if err != nil {
			return err
		}
	}
	if hosts := t.Hosts; o.Site.Hosts == "" && len(hosts) > 1 {
		p.Say("The log has " + hostList(hosts) + ".")
		o.Site.Hosts, err = p.Line(ctx, "Hosts of this site, comma-separated, or all", byLines(hosts)[0],
			func(text string) error {
				_, err := count.ParseRules(count.Settings{LogFormat: "auto",
					Projects: hostProjects(count.DefaultProject, text)}, nil)
				if err != nil {
					return errors.New("want hosts like docs.example.com or example.com/docs, or all")
				}
				return nil
			})
		if err != nil {
			return err
		}
	}
	if o.Site.Dir == "" {
		o.Site.Dir, err = p.Line(ctx, "Directory of the facts, who read what", dir,
			func(string) error { return nil })
	}
	return err
}

// proposedHumans is the mode of counting people that suits the logs. Only headers that browsers send confirm people from
// their first request on; by assets alone, which browsers keep, the first days of an epoch would dip.
func (o *initOptions) proposedHumans() analytics.Humans {
	if o.fetchMode {
		return analytics.Confirmed
	}
	return analytics.Claimed
}

// askHumans asks by which mode people are counted.
func (o *initOptions) askHumans(ctx context.Context, p *setup.Prompter) (err error) {
	if o.Site.Humans != "" || os.Getenv("DOCGAUGE_SITE_HUMANS") != "" {
		return nil
	}
	p.Say("A browser's name is only a claim. Human are all readers with such a name (claimed), or those that also " +
		"behave as browsers do (confirmed); both numbers stay known.")
	o.Site.Humans, err = p.Line(ctx, "Count people as claimed or confirmed", string(o.proposedHumans()), func(text string) error {
		return new(analytics.Humans).UnmarshalText([]byte(text))
	})
	return err
}

// byLines are hosts, those with the most lines first.
func byLines(hosts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(hosts), func(a, b string) int {
		return cmp.Or(cmp.Compare(hosts[b], hosts[a]), cmp.Compare(a, b))
	})
}

// hostList names the hosts of a log that have the most lines.
func hostList(hosts map[string]int) string {
	const most = 4
	all := byLines(hosts)
	text := strings.Join(all[:min(most, len(all))], ", ")
	if len(all) > most {
		text += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return "the hosts " + text
}

// hostProjects is DOCGAUGE_SITE_PROJECTS for the hosts of one project.
func hostProjects(project, hosts string) string {
	var all []string
	for _, host := range format.List(hosts) {
		if host != allHosts {
			all = append(all, project+"="+host)
		}
	}
	return strings.Join(all, ",")
}

// readLogs tries the logs, and says what they are. With --no-check all is well, and nothing is said or sent.
func (a commands) readLogs(ctx context.Context, o *initOptions) (all count.Tried, ok bool, err error) {
	_, s, _, err := a.adopt(o)
	if err != nil {
		return all, false, err
	}
	found := render.NewFindings(a.Out, false)
	all.Hosts, all.Linking = map[string]int{}, count.Linking{}
	var repeated map[int][]count.Finding
	var unreadable logs.SourceErrors
	if !o.NoCheck {
		if repeated, unreadable, err = s.rules.Repeated(ctx, s.sources, a.Now); err != nil {
			return all, false, err
		}
	}
	for i, source := range s.sources {
		if o.NoCheck && strings.Contains(source.Where, "://") {
			continue
		}
		t, err := s.rules.Try(ctx, source, a.Now)
		if !o.NoCheck {
			t.Findings = append(t.Findings, repeated[i]...)
			foundLog(found, source, t, cmp.Or(err, unreadable[i]))
		}
		if errors.Is(err, logs.ErrUnknown) {
			t.Lines++ // there are some
		}
		if t.Parsed > 0 && (all.Parsed == 0 || t.Oldest.Before(all.Oldest)) {
			all.Oldest = t.Oldest
		}
		all.Lines, all.Parsed, all.Accept = all.Lines+t.Lines, all.Parsed+t.Parsed, all.Accept || t.Accept
		o.fetchMode = o.fetchMode || t.People.Logged.FetchMode
		for host, n := range t.Hosts {
			all.Hosts[host] += n
		}
		for host, n := range t.Linking {
			all.Linking[host] += n
		}
	}
	if o.NoCheck {
		return all, true, nil
	}
	return all, !found.Failed(), found.Err()
}

// adopt gives this process the settings of site serve.
func (a commands) adopt(o *initOptions) (c config.Config, s settings, project string, err error) {
	values, err := o.values()
	if err != nil {
		return c, s, "", err
	}
	for _, pair := range o.environ {
		if !slices.Contains(values, pair) && os.Getenv(pair[0]) != "" {
			a.Note("%s of the environment wins over the file: unset it", pair[0])
		}
		if err := os.Unsetenv(pair[0]); err != nil {
			return c, s, "", err
		}
	}
	a.Source = config.ParseSource(o.Site.Path, setup.EnvText(values, optional))
	if c, err = a.Config(config.NeedSite); err != nil {
		return c, s, "", err
	}
	if s, err = a.readSettings(c); err == nil {
		project, err = a.project(c, o.Projects)
	}
	return c, s, project, err
}

// values are the settings of site serve: those that were asked for, and all of a site that the
// environment has. Paths are absolute.
func (o *initOptions) values() (values [][2]string, err error) {
	sources, err := logs.ParseSources(o.Site.Logs)
	if err != nil {
		return nil, input.Usagef("--site-logs: %w", err)
	}
	var named []string
	for _, s := range sources {
		_, isPushed := s.Pushed()
		if s.Where != "-" && !isPushed && !strings.Contains(s.Where, "://") {
			if s.Where, err = filepath.Abs(s.Where); err != nil {
				return nil, err
			}
		}
		if s.Project == "" && o.Site.Hosts == "" && o.Projects != "" && o.Projects != count.DefaultProject {
			s.Project = o.Projects
		}
		if s.Project != "" {
			s.Where = s.Project + "=" + s.Where
		}
		named = append(named, s.Where)
	}
	values = [][2]string{{"DOCGAUGE_SITE_LOGS", strings.Join(named, ",")}, {"DOCGAUGE_SITE_DIR", o.Site.Dir},
		{"DOCGAUGE_SITE_LOG_FORMAT", o.format}, {"DOCGAUGE_SITE_HUMANS", o.Site.Humans},
		{"DOCGAUGE_SITE_HOSTS", o.linked},
		{"DOCGAUGE_SITE_PROJECTS", hostProjects(cmp.Or(o.Projects, count.DefaultProject), o.Site.Hosts)}}
	for _, pair := range o.environ {
		i := slices.IndexFunc(values, func(of [2]string) bool { return of[0] == pair[0] })
		if i < 0 {
			values = append(values, pair)
		} else {
			values[i][1] = cmp.Or(values[i][1], pair[1])
		}
	}
	return slices.DeleteFunc(values, func(pair [2]string) bool { return pair[1] == "" }), nil
}

// write writes both files of settings, and the key between them; after an error nothing is left.
func (a commands) write(
	ctx context.Context, o initOptions, c config.Config, project string, since analytics.Date,
) (err error) {
	var undo []func() error
	defer func() {
		for _, each := range slices.Backward(undo) {
			if err != nil {
				err = errors.Join(err, each())
			}
		}
	}()
	write := func(path, text, template string, mode fs.FileMode) error {
		if _, err := os.Lstat(path); err == nil && template != "" { // unchanged, it keeps its mode
			undo = append(undo, func() error { return durable.RewriteFile(path, []byte(template)) })
			return durable.RewriteFile(path, []byte(text))
		}
		err := durable.CreateFile(path, []byte(text), mode)
		if err == nil {
			undo = append(undo, func() error { return os.Remove(path) })
		}
		return err
	}
	values, err := o.values()
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if o.Unit != "" {
		mode = 0o644 // it has no secret, and the unit's user reads it
	}
	if err = write(o.Site.Path, setup.EnvText(values, optional), setup.SiteTemplate, mode); err != nil {
		return err
	}
	if o.Unit == "" { // else the directory belongs to the unit's user
		secret, remove, err := newKey(ctx, c.SiteDir, project, a.Now())
		if err != nil {
			return err
		}
		undo = append(undo, remove)
		if err = write(o.KeyFile, secret+"\n", "", 0o600); err != nil {
			return err
		}
	}
	o.BaseURL, o.Projects = apiURL(c), project
	o.More = [][2]string{{"DOCGAUGE_REPORTS", strings.Join(config.ReportNames(), ",")}, {"DOCGAUGE_BUDGET", "0"},
		{"DOCGAUGE_SINCE", since.String()}}
	text, err := o.Text()
	if err != nil {
		return err
	}
	if o.Unit == "" {
		if _, err = o.Adopt(a.Console, text, "REPORTS", "BUDGET", "SINCE"); err != nil {
			return err
		}
	}
	exported := ""
	if o.Unit != "" {
		exported = setup.Template
	}
	if err = write(o.Path, text, exported, 0o600); err != nil {
		return err
	}
	return a.printNext(o)
}

// newKey makes a key for the export. The function that it returns removes it, and the directory if
// this made it.
func newKey(
	ctx context.Context, dir, project string, now time.Time,
) (secret string, remove func() error, err error) {
	_, missing := os.Stat(dir)
	store, err := attach(dir)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	key, secret, err := store.AddAPIKey(ctx, project, "read", "", now)
	return secret, func() error {
		if errors.Is(missing, fs.ErrNotExist) {
			return os.RemoveAll(dir)
		}
		store, err := attach(dir)
		if err != nil {
			return err
		}
		_, err = store.RevokeAPIKey(context.WithoutCancel(ctx), key.ID)
		return errors.Join(err, store.Close())
	}, err
}

// printNext says what was written, and how to start the site and use the export.
func (a commands) printNext(o initOptions) error {
	for _, path := range []string{o.Site.Path, o.Path} {
		if err := setup.PrintWritten(a.Console, path); err != nil {
			return err
		}
	}
	if o.Unit != "" {
		_, err := fmt.Fprintf(a.Out, `
Make the key, and start the site and its export:
  sudo -u docgauge docgauge --env-file %[1]s site keys add |
    sudo install -m 0640 -g docgauge /dev/stdin %[2]s
  sudo systemctl enable --now docgauge-site.service %[3]s

Whether the service can read the logs, and follows them:
  sudo -u docgauge -g adm docgauge --env-file %[1]s site check
`, render.ShellWord(o.Site.Path), render.ShellWord(o.KeyFile), render.ShellWord(o.Unit))
		return err
	}
	fmt.Fprintf(a.Out, "wrote %s (mode 0600), the key\n\nStart the site, and leave it running:\n"+
		"  docgauge --env-file %s site serve\n\n", o.KeyFile, render.ShellWord(o.Site.Path))
	if err := setup.PrintUnit(a.Console, "docgauge-site", o.Site.Path, "site serve"); err != nil {
		return err
	}
	return setup.PrintUses(a.Console, o.Path)
}
