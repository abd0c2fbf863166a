package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// archiveAfter is the time after which an ended job takes no more messages and its home is removed.
const archiveAfter = 30 * 24 * time.Hour

// JobSettings are the settings of a site's agent jobs, as they are written. An error names the
// variable.
type JobSettings struct {
	Repo, Agent, Command, Env, Hosts, Tools, Allow, Refuse, Check, Jail, CodeHost, CodeHostURL string

	Token       func() (string, error) // nil = none
	Timeout     time.Duration
	Concurrency int
	MaxDisk     int64
}

// JobRules are checked JobSettings.
type JobRules struct {
	settings JobSettings
	repos    map[string]runner.RepoOptions // by project; Path is empty for a URL
	hosts    []string
	tools    []string
}

var (
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	scpForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+@([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(.+)$`)
)

// ParseJobs checks the settings of the agent jobs of projects. It returns nil if the site runs none.
func ParseJobs(s JobSettings, projects []string) (*JobRules, error) {
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("DOCGAUGE_SITE_"+format, args...))
	}
	if s.Agent == "" {
		if s.Repo != "" {
			add("REPO: needs DOCGAUGE_SITE_AGENT: which agent edits the repository? Want %s", agentNames())
		}
		return nil, errors.Join(problems...)
	}
	r := &JobRules{settings: s, repos: map[string]runner.RepoOptions{}, hosts: elements(s.Hosts), tools: elements(s.Tools)}
	switch preset := slices.Contains(runner.Presets(), s.Agent); {
	case s.Agent != "command" && !preset:
		add("AGENT: %.40q: want %s", s.Agent, agentNames())
	case preset && s.Command != "":
		add("AGENT_COMMAND: has no effect with DOCGAUGE_SITE_AGENT=%s: unset it", s.Agent)
	case preset && s.Jail == "bubblewrap" && len(r.hosts) == 0:
		add("AGENT_HOSTS: missing; the hosts of the service that %s needs", s.Agent)
	case !preset && s.Command == "":
		add("AGENT_COMMAND: missing; the command that edits files, with the prompt on standard input")
	}
	for _, name := range elements(s.Env) {
		_, set := os.LookupEnv(name)
		switch {
		case !envName.MatchString(name):
			add("AGENT_ENV: %.60q: want names of variables", name)
		case strings.HasPrefix(name, "DOCGAUGE_"):
			add("AGENT_ENV: %.60s: is a setting of docgauge, which agents must not see", name)
		case !set:
			add("AGENT_ENV: %.60s: is not set", name)
		}
	}
	for _, kind := range elements(s.Allow) {
		if !slices.Contains(runner.Allowed, kind) {
			add("AGENT_ALLOW: %.40q: want %s", kind, strings.Join(runner.Allowed, ", "))
		}
	}
	for _, pattern := range elements(s.Refuse) {
		if err := runner.CheckPattern(pattern); err != nil {
			add("AGENT_REFUSE: %w", err)
		}
	}
	if _, err := runner.ParseHosts(r.hosts); err != nil {
		add("AGENT_HOSTS: %w", err)
	}
	switch s.Jail {
	case "bubblewrap":
	case "none":
		if len(r.hosts)+len(r.tools) > 0 {
			add("JAIL=none: then DOCGAUGE_SITE_AGENT_HOSTS and DOCGAUGE_SITE_AGENT_TOOLS have no effect: unset them")
		}
	default:
		add("JAIL: %.40q: want bubblewrap or none", s.Jail)
	}
	if s.Timeout < time.Second || s.Timeout > 24*time.Hour {
		add("JOB_TIMEOUT: %s: want 1s to 24h", s.Timeout)
	}
	if s.Concurrency < 1 || s.Concurrency > 64 {
		add("JOB_CONCURRENCY: %d: want 1 to 64", s.Concurrency)
	}
	problems = append(problems, r.parseRepos(projects))
	return r, errors.Join(problems...)
}

func agentNames() string { return strings.Join(runner.Presets(), ", ") + " or command" }

// parseRepos reads DOCGAUGE_SITE_REPO: [project=]path or URL, with #branch, comma-separated.
func (r *JobRules) parseRepos(projects []string) error {
	var problems []error
	s, tokenHost := r.settings, ""
	for _, text := range elements(s.Repo) {
		add := func(format string, args ...any) {
			err := fmt.Errorf(format, args...)
			problems = append(problems, fmt.Errorf("DOCGAUGE_SITE_REPO: %.200s: %w", analytics.RedactUsers(text), err))
		}
		project, source, named := strings.Cut(text, "=")
		if !named || analytics.CheckProject(project) != nil {
			if project, source = projects[0], text; len(projects) > 1 {
				add("which project is it for? Want project=%s", analytics.RedactUsers(text))
				continue
			}
		}
		if !slices.Contains(projects, project) {
			add("project %s is not one of the site's: %s", project, strings.Join(projects, ", "))
			continue
		}
		if _, twice := r.repos[project]; twice {
			add("project %s has a repository already", project)
			continue
		}
		source, branch, _ := strings.Cut(source, "#")
		o := runner.RepoOptions{Base: branch, Command: s.Command, Check: s.Check, Timeout: s.Timeout, MaxDisk: s.MaxDisk,
			Env: elements(s.Env), OwnHome: true, Allow: elements(s.Allow), Refuse: elements(s.Refuse), Token: s.Token}
		if s.Agent != "command" {
			o.Preset = s.Agent
		}
		at, err := remote(source)
		if err != nil {
			add("%w", err)
			continue
		}
		if o.Path = source; at.host != "" {
			o.Path, o.URL = "", source
		}
		o.CodeHost = s.CodeHost
		for _, h := range codehost.Hosts {
			if public, err := url.Parse(h.API); err == nil && h.Web(public).Host == at.host &&
				(o.CodeHost == "" || o.CodeHost == h.Name) {
				o.CodeHost, o.CodeHostURL = h.Name, h.API
			}
		}
		tokenFor := "" // the host that gets the token
		if at.web != nil {
			tokenFor = at.web.Host
		}
		switch host := codehost.Find(o.CodeHost); {
		case o.CodeHost == "none":
			if o.CodeHost = ""; s.CodeHostURL != "" {
				add("has no code host: unset DOCGAUGE_SITE_CODE_HOST_URL")
			}
		case o.CodeHost == "":
			add("which code host is it on? Want DOCGAUGE_SITE_CODE_HOST=%s, or none to have branches alone", codeHostNames())
		case host.Name == "":
			problems = append(problems, fmt.Errorf("DOCGAUGE_SITE_CODE_HOST: %.40q: want %s or none", s.CodeHost,
				codeHostNames()))
		default:
			if o.CodeHostURL = cmp.Or(s.CodeHostURL, o.CodeHostURL); at.host != "" && o.CodeHostURL == "" {
				add("needs DOCGAUGE_SITE_CODE_HOST_URL, the URL of the REST API of %s, such as https://%s%s", at.host,
					at.host, host.Suffix)
				continue
			}
			if o.Project, tokenFor, err = at.project(host, o.CodeHostURL); err != nil {
				add("%w", err)
			}
			if s.Token == nil {
				add("needs DOCGAUGE_SITE_TOKEN, which may read the repository and open pull requests")
			}
		}
		if tokenFor != "" && s.Token != nil {
			if tokenHost != "" && tokenHost != tokenFor {
				add("is on another host than %s: DOCGAUGE_SITE_TOKEN is for one host", tokenHost)
			}
			tokenHost = tokenFor
		}
		r.repos[project] = o
	}
	if len(r.repos) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("DOCGAUGE_SITE_REPO: missing; the git repository that agents edit, "+
			"a path or a URL: prj_docs=/srv/docs.git"))
	}
	return errors.Join(problems...)
}

func codeHostNames() string {
	var names []string
	for _, h := range codehost.Hosts {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

// place is where a repository is. Of a path on this machine it is empty.
type place struct {
	host string   // with the port of a web server, without that of an SSH server
	path string   // of the repository, without .git
	web  *url.URL // nil if git reaches it over SSH
}

// remote returns where a URL of git leads.
func remote(source string) (place, error) {
	trim := func(path string) string { return strings.TrimSuffix(strings.Trim(path, "/"), ".git") }
	if m := scpForm.FindStringSubmatch(source); m != nil {
		return place{host: strings.ToLower(strings.Trim(m[1], "[]")), path: trim(m[2])}, nil
	}
	if !strings.Contains(source, "://") {
		if source == "" {
			return place{}, errors.New("want a path or a URL")
		}
		return place{}, nil
	}
	u, err := url.Parse(source)
	if err != nil {
		return place{}, errors.New("want a path or a URL")
	}
	_, password := u.User.Password()
	if u.Scheme == "ssh" && u.Host != "" && !password {
		return place{host: strings.ToLower(u.Hostname()), path: trim(u.Path)}, nil
	}
	u, err = analytics.ParseServiceURL(source, analytics.URLRules{
		Example: "https://github.com/owner/name", CredentialsIn: "the token goes into DOCGAUGE_SITE_TOKEN",
	})
	if err != nil {
		return place{}, err
	}
	u.Host = strings.ToLower(u.Host)
	return place{host: u.Host, path: trim(u.Path), web: u}, nil
}

// project returns the path of the repository on a code host with an API at a URL, and that host.
func (p place) project(kind codehost.Host, apiURL string) (path, host string, err error) {
	api, err := analytics.ParseServiceURL(apiURL, analytics.URLRules{Example: kind.API,
		CredentialsIn: "the token goes into DOCGAUGE_SITE_TOKEN"})
	if p.host == "" {
		return "", "", errors.New("want the URL of the repository, such as https://github.com/owner/name: there the " +
			"pull requests are opened")
	}
	if err != nil {
		return "", "", fmt.Errorf("DOCGAUGE_SITE_CODE_HOST_URL: %w", err)
	}
	web := kind.Web(api)
	path, same := p.path, p.host == web.Hostname()
	if p.web != nil { // the web server can have a path before that of the repository, the SSH server has none
		path, same = strings.CutPrefix("/"+p.path, web.Path+"/")
		same = same && p.web.Scheme == web.Scheme && p.host == web.Host
	}
	if !same {
		return "", "", fmt.Errorf("is on %s, but DOCGAUGE_SITE_CODE_HOST_URL is for repositories below %s, and the token "+
			"is for them alone", p.host, web)
	}
	return path, web.Host, nil
}

// elements returns the elements of a comma-separated list.
func elements(text string) (all []string) {
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			all = append(all, element)
		}
	}
	return all
}

// Jobs are the agent jobs of a site. It implements [Jobs].
type Jobs struct {
	*runner.Queue
	repos   map[string]*runner.Repo
	refused error // why no job is taken; nil = they are
}

// newJail returns the jail that r asks for; nil without one.
func (r *JobRules) newJail(ctx context.Context, dir string, logger *slog.Logger) (*runner.Jail, error) {
	if r.settings.Jail == "none" {
		return nil, nil //nolint:nilnil // no jail is wanted
	}
	jail, err := runner.NewJail(ctx, runner.JailOptions{Hosts: r.hosts, Tools: r.tools, Dir: dir, Logger: logger})
	if err != nil {
		err = fmt.Errorf("DOCGAUGE_SITE_JAIL=bubblewrap: %w; DOCGAUGE_SITE_JAIL=none runs agents with the rights of "+
			"docgauge", err)
	}
	return jail, err
}

// Jailed says how agents are confined.
func (r *JobRules) Jailed() string {
	if r.settings.Jail == "none" {
		return "not jailed: an agent can read and change what docgauge can (DOCGAUGE_SITE_JAIL=none)"
	}
	return "jailed with bubblewrap"
}

// Level is that of a log message about how agents are confined.
func (r *JobRules) Level() slog.Level {
	if r.settings.Jail == "none" {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// OpenJobs opens the jobs below dir and continues those that are active. If there is no jail, they fail,
// and Refused says why no more are taken. Where held reports that the clock may be wrong, none is archived.
func OpenJobs(
	ctx context.Context, r *JobRules, dir string, now func() time.Time, held func() bool, logger *slog.Logger,
) (_ *Jobs, err error) {
	j := &Jobs{repos: map[string]*runner.Repo{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.closeRepos())
		}
	}()
	if dir, err = filepath.Abs(filepath.Join(dir, "jobs")); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	model := r.settings.Agent
	if r.settings.Jail == "none" {
		model += ", not jailed"
	}
	jail, err := r.newJail(ctx, filepath.Join(dir, "jail"), logger)
	j.refused = err
	for project, o := range r.repos {
		o.Jail = jail
		if o.URL != "" {
			o.Path = filepath.Join(dir, "copies", project+".git")
		}
		if j.repos[project], err = runner.OpenRepo(ctx, o, filepath.Join(dir, "work", project)); err != nil {
			delete(j.repos, project)
			return nil, fmt.Errorf("DOCGAUGE_SITE_REPO: project %s: %w", project, err)
		}
	}
	j.Queue, err = runner.Open(runner.Options{
		Dir: dir, Workers: r.settings.Concurrency, ArchiveAfter: archiveAfter, Model: model,
		Source: func(project string) runner.Source { return j.repos[project].Source() },
		Editor: jobEditor{j}, Host: jobEditor{j}, Now: now, Logger: logger,
		ClockHeld: held, Archived: func(job runner.Job) error {
			if repo := j.repos[job.Project]; repo != nil {
				return repo.Forget(job.ID)
			}
			return nil
		},
	})
	return j, err
}

// Refused returns why no job is taken, nil if they are.
func (j *Jobs) Refused() error { return j.refused }

// Close stops the work on jobs, and waits for it. The next OpenJobs continues it.
func (j *Jobs) Close() error { return errors.Join(j.Queue.Close(), j.closeRepos()) }

func (j *Jobs) closeRepos() (err error) {
	for _, repo := range j.repos {
		err = errors.Join(err, repo.Close())
	}
	return err
}

// taken returns a refusal if no job of a project is taken. Its status tells clients that the prompt
// was not: after a 5xx they could not know.
func (j *Jobs) taken(project string) error {
	if j.refused != nil {
		return api.Fail(http.StatusNotFound, "agent jobs: this site runs none now: its jail is missing; "+
			"docgauge site check says more")
	}
	if j.repos[project] == nil {
		return api.Fail(http.StatusNotFound, "agent jobs: project %s has no repository", project)
	}
	return nil
}

// Create accepts a job.
func (j *Jobs) Create(c *api.Call, prompt string) (any, error) {
	if err := j.taken(c.Project); err != nil {
		return nil, err
	}
	return j.Queue.Create(c.Project, prompt)
}

// Message accepts a message for a job.
func (j *Jobs) Message(c *api.Call, id, prompt string) (any, error) {
	if err := j.taken(c.Project); err != nil {
		return nil, err
	}
	return j.Queue.Message(c.Project, id, prompt)
}

// Get returns a job.
func (j *Jobs) Get(c *api.Call, id string) (any, error) { return j.Queue.Get(c.Project, id) }

// jobEditor is the repository of each job's project.
type jobEditor struct{ *Jobs }

func (e jobEditor) Edit(ctx context.Context, t runner.Task) (runner.Result, error) {
	switch repo := e.repos[t.Project]; {
	case e.refused != nil:
		return runner.Result{}, e.refused
	case repo == nil:
		return runner.Result{}, fmt.Errorf("DOCGAUGE_SITE_REPO: has none for project %s any more", t.Project)
	default:
		return repo.Edit(ctx, t)
	}
}

// Diff returns none: code hosts make their own.
func (e jobEditor) Diff(context.Context, runner.Change) (string, error) { return "", nil }

func (e jobEditor) Propose(ctx context.Context, job runner.Job, c runner.Change, diff string) (string, error) {
	repo := e.repos[job.Project]
	if repo == nil {
		return "", fmt.Errorf("DOCGAUGE_SITE_REPO: has none for project %s any more", job.Project)
	}
	return repo.Propose(ctx, job, c, diff)
}

// TryJobs tries what jobs need, without one: the jail, the agent's program, and of each project the
// repository, the rights of the token and the check. found gets a name and what was found, or the error.
func TryJobs(ctx context.Context, r *JobRules, logger *slog.Logger, found func(name, detail string, err error)) error {
	temp, err := durable.NewTemp("", "docgauge-check")
	if err != nil {
		return err
	}
	dir := temp.Path
	jail, jailErr := r.newJail(ctx, filepath.Join(dir, "jail"), logger)
	found("agent jobs", r.Jailed(), jailErr)
	if name := r.settings.Agent; jailErr == nil && name != "command" {
		version, err := runner.Version(ctx, name, jail, filepath.Join(dir, "agent"))
		found("agent", name+": "+version, err)
	}
	for project, o := range r.repos {
		o.Jail = jail
		if jailErr != nil {
			o.Check = ""
		}
		if o.URL != "" {
			o.Path = filepath.Join(dir, project+".git")
		}
		err = errors.Join(err, tryRepo(ctx, project, o, found))
	}
	return errors.Join(err, temp.Remove())
}

func tryRepo(ctx context.Context, project string, o runner.RepoOptions,
	found func(name, detail string, err error)) error {
	repo, err := runner.OpenRepo(ctx, o, "")
	if err != nil {
		found("repository", project, err)
		return nil
	}
	err = repo.Check(ctx)
	source := repo.Source()
	found("repository", project+": "+source.Repository+", branch "+source.Ref, err)
	if err == nil && o.Check != "" {
		found("check command", project+": passes on branch "+source.Ref, repo.TryCheckCommand(ctx))
	}
	return repo.Close()
}
