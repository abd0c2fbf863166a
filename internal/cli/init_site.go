package cli

import (
	"cmp"
	"context"
	_ "embed"
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
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/logs"
	"github.com/docgauge/docgauge/internal/site/serve"
)

// ownSiteAnswer is the answer to the question for the base URL if there is no platform.
const ownSiteAnswer = "site"

// siteTemplate is what packages and install.sh install as the settings of docgauge-site.service.
//
//go:embed site.env
var siteTemplate string

// wellKnownLogs are where web servers write by default.
var wellKnownLogs = []string{"/var/log/nginx/access.log*", "/var/log/caddy/access*.log*",
	"/var/log/apache2/access.log*", "/var/log/httpd/access_log*"}

// initSiteOptions are the flags of init for a site of one's own.
type initSiteOptions struct {
	path, logs, hosts, dir string
	format                 string      // DOCGAUGE_SITE_LOG_FORMAT, if it was asked for
	environ                [][2]string // settings of a site that the environment has
}

// allHosts is the answer to the question for hosts that counts all of them.
const allHosts = "all"

// siteOptional are settings that init does not ask for, as comments of the file of a site.
const siteOptional = `
#DOCGAUGE_SITE_LOG_PROXIES=10.0.0.0/8
#DOCGAUGE_SITE_EXCLUDE=198.51.100.0/24,/internal/*,agent:UptimeRobot
`

// initSite writes the settings of site serve and, with a key that it makes, those of the export.
func (a *Program) initSite(ctx context.Context, o initOptions, terminal *os.File) error {
	if err := o.checkSite(); err != nil {
		return err
	}
	if terminal != nil {
		text := render.NewText(a.Err)
		text.Line(0, "This counts the readers of your site, from the access logs of its web server. It writes the "+
			"settings of docgauge site serve to %s, and those of the export to %s.", o.site.path, o.path)
		text.Line(0, "It sends nothing. Nothing is written until all is well; Ctrl-C leaves nothing behind.")
		text.Line(0, "")
		if err := text.Err(); err != nil {
			return err
		}
	}
	c, project, since, err := a.trySite(ctx, &o, terminal)
	if err != nil {
		return err
	}
	return a.writeSite(ctx, o, c, project, since)
}

// checkSite completes the paths, and refuses files that exist.
func (o *initOptions) checkSite() (err error) {
	if o.keyFile != "" || o.keyOnStdin || o.export || o.baseURL != "" && o.baseURL != ownSiteAnswer {
		return usageError{errors.New("--site-logs: not with --base-url, --api-key-file, --api-key-stdin and --export: " +
			"init makes the key of your own site, and its docgauge site serve must run before the first export")}
	}
	if o.path, err = filepath.Abs(o.path); err != nil {
		return err
	}
	beside := filepath.Dir(o.path)
	if o.keyFile = filepath.Join(beside, "site.key"); o.unit != "" {
		o.keyFile = filepath.Join(beside, unitKey(o.path))
		o.site.dir = cmp.Or(o.site.dir, "/var/lib/docgauge-site")
	}
	o.site.path, err = filepath.Abs(cmp.Or(o.site.path, filepath.Join(beside, "site.env")))
	if err != nil {
		return err
	}
	if text, err := os.ReadFile(o.site.path); !errors.Is(err, fs.ErrNotExist) && string(text) != siteTemplate {
		return usageError{fmt.Errorf("--site-env-file: %s exists, and init replaces no file: name another", o.site.path)}
	}
	for _, v := range config.Variables() {
		if value := os.Getenv(v.Name); strings.HasPrefix(v.Name, "DOCGAUGE_SITE_") && value != "" {
			o.site.environ = append(o.site.environ, [2]string{v.Name, value})
		}
	}
	if _, err := os.Lstat(o.keyFile); !errors.Is(err, fs.ErrNotExist) {
		return usageError{fmt.Errorf("--env-file: beside it is a key, %s, and init replaces no file: name another "+
			"directory", o.keyFile)}
	}
	return nil
}

// trySite asks for what no flag says, until the logs are logs. It returns the settings of site serve,
// and the project and the first day of the export.
func (a *Program) trySite(
	ctx context.Context, o *initOptions, terminal *os.File,
) (c config.Config, project string, since analytics.Date, err error) {
	ask := func(questions func(p *prompter) error) error {
		if terminal == nil {
			return nil
		}
		return a.prompt(terminal, questions)
	}
	var tried count.Tried
	for done := false; !done; {
		if o.site.logs == "" {
			if err = ask(func(p *prompter) error { return o.askLogs(ctx, p) }); err != nil {
				return c, "", 0, err
			}
		}
		if tried, done, err = a.readLogs(ctx, o); err != nil {
			return c, "", 0, err
		}
		switch {
		case !done && terminal == nil:
			fmt.Fprintf(a.Err, "docgauge: %s is not written; correct what failed and run init again, or add "+
				"--no-check\n", o.path)
			return c, "", 0, errReported
		case !done && tried.Lines == 0:
			o.site.logs = ""
		case !done:
			if err = ask(func(p *prompter) error { return o.askFormat(ctx, p) }); err != nil {
				return c, "", 0, err
			}
		}
	}
	byDefault := filepath.Join(o.dir, "site")
	err = ask(func(p *prompter) error { return o.askSite(ctx, p, tried.Hosts, byDefault) })
	if err != nil {
		return c, "", 0, err
	}
	said := render.NewText(a.Err)
	if terminal == nil && o.site.hosts == "" && len(tried.Hosts) > 1 {
		said.Line(2, "docgauge: the log has %s, which are counted as one site: --site-hosts picks some of them",
			hostList(tried.Hosts))
	}
	if tried.Lines > 0 && !tried.Accept {
		said.Line(2, "docgauge: the log lacks the header Accept: assistants that ask for Markdown with a browser's name "+
			"count as people; docs/site.md shows how to log it")
	}
	if err := said.Err(); err != nil {
		return c, "", 0, err
	}
	if o.site.dir, err = filepath.Abs(cmp.Or(o.site.dir, os.Getenv("DOCGAUGE_SITE_DIR"), byDefault)); err != nil {
		return c, "", 0, err
	}
	if c, _, project, err = a.adoptSite(o); err != nil {
		return c, "", 0, err
	}
	// Days before the first line had readers that no log has, and what is not kept is not served.
	since = analytics.DateOf(a.now())
	if tried.Parsed > 0 {
		since = max(analytics.DateOf(tried.Oldest), serve.OldestDay(since, int(c.SiteRetention)))
	}
	return c, project, since, nil
}

func (o *initOptions) askLogs(ctx context.Context, p *prompter) (err error) {
	byDefault := os.Getenv("DOCGAUGE_SITE_LOGS")
	for _, glob := range wellKnownLogs {
		if found, err := filepath.Glob(glob); err == nil && len(found) > 0 {
			byDefault = cmp.Or(byDefault, glob)
		}
	}
	o.site.logs, err = p.line(ctx, "Access logs, files or globs", byDefault, func(text string) error {
		all, err := logs.ParseSources(text)
		if err == nil && len(all) == 0 {
			err = errors.New("want the path of a log, like /var/log/nginx/access.log*")
		}
		return err
	})
	return err
}

// askFormat asks for the format of logs whose lines are not understood, or for other logs.
func (o *initOptions) askFormat(ctx context.Context, p *prompter) (err error) {
	o.site.format, err = p.line(ctx, "Their format, like nginx:$remote_addr … (Enter: other logs)", "",
		func(text string) error {
			if text == "" {
				return nil
			}
			_, err := count.ParseRules(count.Settings{LogFormat: text}, nil)
			return err
		})
	if o.site.format == "" {
		o.site.logs = ""
	}
	return err
}

// askSite asks which hosts the site has, and where to keep who read what.
func (o *initOptions) askSite(ctx context.Context, p *prompter, hosts map[string]int, dir string) (err error) {
	if o.site.hosts == "" && len(hosts) > 1 {
		p.say("The log has " + hostList(hosts) + ".")
		o.site.hosts, err = p.line(ctx, "Hosts of this site, comma-separated, or all", byLines(hosts)[0],
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
	if o.site.dir == "" {
		o.site.dir, err = p.line(ctx, "Directory of the facts, who read what", dir,
			func(string) error { return nil })
	}
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
	for host := range strings.SplitSeq(hosts, ",") {
		if host = strings.TrimSpace(host); host != "" && host != allHosts {
			all = append(all, project+"="+host)
		}
	}
	return strings.Join(all, ",")
}

// readLogs tries the logs, and says what they are.
func (a *Program) readLogs(ctx context.Context, o *initOptions) (all count.Tried, ok bool, err error) {
	c, s, _, err := a.adoptSite(o)
	if err != nil || o.noCheck {
		return all, true, err
	}
	check := &checker{program: a, config: c}
	all.Hosts = map[string]int{}
	for _, source := range s.sources {
		t, err := s.rules.Try(ctx, source, a.now)
		check.foundLog(source, t, err)
		if errors.Is(err, logs.ErrUnknown) {
			t.Lines++ // there are some
		}
		if t.Parsed > 0 && (all.Parsed == 0 || t.Oldest.Before(all.Oldest)) {
			all.Oldest = t.Oldest
		}
		all.Lines, all.Parsed, all.Accept = all.Lines+t.Lines, all.Parsed+t.Parsed, all.Accept || t.Accept
		for host, n := range t.Hosts {
			all.Hosts[host] += n
		}
	}
	return all, !check.failed(), check.printed
}

// adoptSite makes the settings of site serve those of this process.
func (a *Program) adoptSite(o *initOptions) (c config.Config, s ownSite, project string, err error) {
	values, err := o.siteValues()
	if err != nil {
		return c, s, "", err
	}
	for _, pair := range o.site.environ {
		if !slices.Contains(values, pair) && os.Getenv(pair[0]) != "" {
			a.note("%s of the environment wins over the file: unset it", pair[0])
		}
		if err := os.Unsetenv(pair[0]); err != nil {
			return c, s, "", err
		}
	}
	a.source = config.ParseSource(o.site.path, envText(values, siteOptional))
	if c, err = a.config(config.NeedSite); err != nil {
		return c, s, "", err
	}
	if s, err = a.readSite(c); err == nil {
		project, err = a.siteProject(c, o.projects)
	}
	return c, s, project, err
}

// siteValues are the settings of site serve: those that were asked for, and all of a site that the
// environment has. Paths are absolute.
func (o *initOptions) siteValues() (values [][2]string, err error) {
	sources, err := logs.ParseSources(o.site.logs)
	if err != nil {
		return nil, usageError{fmt.Errorf("--site-logs: %w", err)}
	}
	var named []string
	for _, s := range sources {
		if s.Where != "-" && !strings.Contains(s.Where, "://") {
			if s.Where, err = filepath.Abs(s.Where); err != nil {
				return nil, err
			}
		}
		if s.Project == "" && o.site.hosts == "" && o.projects != "" && o.projects != count.DefaultProject {
			s.Project = o.projects
		}
		if s.Project != "" {
			s.Where = s.Project + "=" + s.Where
		}
		named = append(named, s.Where)
	}
	values = [][2]string{{"DOCGAUGE_SITE_LOGS", strings.Join(named, ",")}, {"DOCGAUGE_SITE_DIR", o.site.dir},
		{"DOCGAUGE_SITE_LOG_FORMAT", o.site.format},
		{"DOCGAUGE_SITE_PROJECTS", hostProjects(cmp.Or(o.projects, count.DefaultProject), o.site.hosts)}}
	for _, pair := range o.site.environ {
		i := slices.IndexFunc(values, func(of [2]string) bool { return of[0] == pair[0] })
		if i < 0 {
			values = append(values, pair)
		} else {
			values[i][1] = cmp.Or(values[i][1], pair[1])
		}
	}
	return slices.DeleteFunc(values, func(pair [2]string) bool { return pair[1] == "" }), nil
}

// writeSite writes both files of settings, and the key between them; after an error nothing is left.
func (a *Program) writeSite(
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
	values, err := o.siteValues()
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if o.unit != "" {
		mode = 0o644 // it has no secret, and the unit's user reads it
	}
	if err = write(o.site.path, envText(values, siteOptional), siteTemplate, mode); err != nil {
		return err
	}
	if o.unit == "" { // else the directory belongs to the unit's user
		secret, remove, err := newSiteKey(ctx, c.SiteDir, project, a.now())
		if err != nil {
			return err
		}
		undo = append(undo, remove)
		if err = write(o.keyFile, secret+"\n", "", 0o600); err != nil {
			return err
		}
	}
	o.baseURL, o.projects = siteURL(c), project
	o.more = [][2]string{{"DOCGAUGE_BUDGET", "0"}, {"DOCGAUGE_SINCE", since.String()}}
	text, err := o.text()
	if err != nil {
		return err
	}
	if o.unit == "" {
		if _, err = a.adopt(o, text, "BUDGET", "SINCE"); err != nil {
			return err
		}
	}
	exported := ""
	if o.unit != "" {
		exported = template
	}
	if err = write(o.path, text, exported, 0o600); err != nil {
		return err
	}
	return a.printSiteNext(o)
}

// newSiteKey makes a key for the export. The function that it returns removes it, and the directory if
// this made it.
func newSiteKey(
	ctx context.Context, dir, project string, now time.Time,
) (secret string, remove func() error, err error) {
	_, missing := os.Stat(dir)
	store, err := attachSite(dir)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	key, secret, err := store.AddAPIKey(ctx, project, "read", now)
	return secret, func() error {
		if errors.Is(missing, fs.ErrNotExist) {
			return os.RemoveAll(dir)
		}
		store, err := attachSite(dir)
		if err != nil {
			return err
		}
		_, err = store.RevokeAPIKey(context.WithoutCancel(ctx), key.ID)
		return errors.Join(err, store.Close())
	}, err
}

// printSiteNext says what was written, and how to start the site and use the export.
func (a *Program) printSiteNext(o initOptions) error {
	for _, path := range []string{o.site.path, o.path} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "wrote %s (mode %04o)\n", path, info.Mode().Perm())
	}
	if o.unit != "" {
		_, err := fmt.Fprintf(a.Out, `
Make the key, and start the site and its export:
  sudo -u docgauge docgauge --env-file %[1]s site keys add |
    sudo install -m 0640 -g docgauge /dev/stdin %[2]s
  sudo systemctl enable --now docgauge-site.service %[3]s

Whether the service can read the logs, and follows them:
  sudo -u docgauge -g adm docgauge --env-file %[1]s site check
`, shellWord(o.site.path), shellWord(o.keyFile), shellWord(o.unit))
		return err
	}
	fmt.Fprintf(a.Out, "wrote %s (mode 0600), the key\n\nStart the site, and leave it running:\n"+
		"  docgauge --env-file %s site serve\n\n", o.keyFile, shellWord(o.site.path))
	if err := a.printUses(o.path); err != nil {
		return err
	}
	self, _, err := programPath()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "The site's unit (docgauge-site.service) differs in one line:\n"+
		"  ExecStart=%s --env-file %s site serve\n", systemdWord(self), systemdWord(o.site.path))
	return err
}
