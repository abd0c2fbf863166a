package serve

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// JobSettings are the settings of a site's agent jobs, as they are written. An error names the
// variable.
type JobSettings struct {
	Repo, Agent, Command, Env, Hosts, Tools, URL, CA, Allow, Refuse, Check, Jail, CodeHost, CodeHostURL, Labels string

	Draft, HidePrompt bool // of pull requests

	Variables   map[string]string      // those that Env names and that are set
	Token       func() (string, error) // nil = none
	Timeout     time.Duration
	Concurrency int
	CheckTries  int
	MaxDisk     int64
}

// JobRules are checked JobSettings.
type JobRules struct {
	settings JobSettings
	repos    map[string]runner.RepoOptions // by project; Path is empty for a URL
	env      []runner.Variable
	hosts    []string
	tools    []string
	gateway  *runner.Gateway // nil = none
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
	r := &JobRules{settings: s, repos: map[string]runner.RepoOptions{}, hosts: format.List(s.Hosts), tools: format.List(s.Tools)}
	switch preset := slices.Contains(runner.Presets(), s.Agent); {
	case s.Agent != "command" && !preset:
		add("AGENT: %.40q: want %s", s.Agent, agentNames())
	case preset && s.Command != "":
		add("AGENT_COMMAND: has no effect with DOCGAUGE_SITE_AGENT=%s: unset it", s.Agent)
	case preset && s.Jail == "bubblewrap" && len(r.hosts) == 0 && s.URL == "":
		add("AGENT_HOSTS: missing; the hosts of the service that %s needs, or name a gateway in DOCGAUGE_SITE_AGENT_URL",
			s.Agent)
	case !preset && s.Command == "":
		add("AGENT_COMMAND: missing; the command that edits files, with the prompt on standard input")
	}
	for _, name := range format.List(s.Env) {
		name, plain := strings.CutPrefix(name, "+")
		value, set := s.Variables[name]
		r.env = append(r.env, runner.Variable{Name: name, Value: value, Plain: plain})
		switch {
		case !envName.MatchString(name):
			add("AGENT_ENV: %.60q: want names of variables", name)
		case strings.HasPrefix(name, "DOCGAUGE_"):
			add("AGENT_ENV: %.60s: is a setting of docgauge, which agents must not see", name)
		case !set:
			add("AGENT_ENV: %.60s: is not set", name)
		case !plain && len(strings.TrimSpace(value)) < runner.MinSecret:
			add("AGENT_ENV: %.60s: has less than %d bytes, too few to be found as a secret: want +%[1]s if it is none", name,
				runner.MinSecret)
		}
	}
	for _, kind := range format.List(s.Allow) {
		if !slices.Contains(runner.Allowed, kind) {
			add("AGENT_ALLOW: %.40q: want %s", kind, strings.Join(runner.Allowed, ", "))
		}
	}
	for _, pattern := range format.List(s.Refuse) {
		if err := runner.CheckPattern(pattern); err != nil {
			add("AGENT_REFUSE: %w", err)
		}
	}
	if _, err := runner.ParseHosts(r.hosts); err != nil {
		add("AGENT_HOSTS: %w", err)
	}
	for _, host := range r.hosts {
		if name, _, _ := strings.Cut(strings.ToLower(host), ":"); name == "localhost" {
			add("AGENT_HOSTS: localhost: in the jail that is the jail itself; DOCGAUGE_SITE_AGENT_URL=http://127.0.0.1:PORT " +
				"reaches a model on this machine")
		}
	}
	if s.URL != "" {
		var err error
		r.gateway, err = runner.ParseGateway(s.URL, s.CA)
		problems = append(problems, err)
	} else if s.CA != "" {
		add("AGENT_CA: has no effect without DOCGAUGE_SITE_AGENT_URL: unset it")
	}
	switch s.Jail {
	case "bubblewrap":
	case "none":
		if len(r.hosts)+len(r.tools) > 0 {
			add("JAIL=none: then DOCGAUGE_SITE_AGENT_HOSTS and DOCGAUGE_SITE_AGENT_TOOLS have no effect: unset them")
		}
		if s.CA != "" {
			add("AGENT_CA: has no effect with DOCGAUGE_SITE_JAIL=none: name the variable of the agent, such as " +
				"NODE_EXTRA_CA_CERTS, in DOCGAUGE_SITE_AGENT_ENV")
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
	for _, text := range format.List(s.Repo) {
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
		o := runner.RepoOptions{Base: branch, Command: s.Command, Check: s.Check, CheckTries: s.CheckTries,
			Timeout: s.Timeout, MaxDisk: s.MaxDisk, Env: r.env, OwnHome: true, Allow: format.List(s.Allow),
			Refuse: format.List(s.Refuse), Token: s.Token, Gateway: r.gateway,
			Labels: format.List(s.Labels), Draft: s.Draft, HidePrompt: s.HidePrompt}
		if s.Agent != "command" {
			o.Preset = s.Agent
		}
		repo, err := remote(source)
		if err != nil {
			add("%w", err)
			continue
		}
		if o.Path = source; repo.host != "" {
			o.Path, o.URL = "", source
		}
		o.CodeHost = s.CodeHost
		for _, h := range codehost.Hosts {
			if public, err := url.Parse(h.API); err == nil && h.Web(public).Host == repo.host &&
				(o.CodeHost == "" || o.CodeHost == h.Name) {
				o.CodeHost, o.CodeHostURL = h.Name, h.API
			}
		}
		tokenFor := "" // the host that gets the token
		if repo.web != nil {
			tokenFor = repo.web.Host
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
			if o.CodeHostURL = cmp.Or(s.CodeHostURL, o.CodeHostURL); repo.host != "" && o.CodeHostURL == "" {
				add("needs DOCGAUGE_SITE_CODE_HOST_URL, the URL of the REST API of %s, such as https://%s%s", repo.host,
					repo.host, host.Suffix)
				continue
			}
			if o.Project, tokenFor, err = repo.project(host, o.CodeHostURL); err != nil {
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

// remoteRepo locates a repository on another machine. It is empty for a path on this machine.
type remoteRepo struct {
	host string   // with the port of a web server, without the port of an SSH server
	path string   // of the repository, without .git
	web  *url.URL // nil if git reaches it over SSH
}

// remote returns the repository of a URL of git.
func remote(source string) (remoteRepo, error) {
	trim := func(path string) string { return strings.TrimSuffix(strings.Trim(path, "/"), ".git") }
	if m := scpForm.FindStringSubmatch(source); m != nil {
		return remoteRepo{host: strings.ToLower(strings.Trim(m[1], "[]")), path: trim(m[2])}, nil
	}
	if !strings.Contains(source, "://") {
		if source == "" {
			return remoteRepo{}, errors.New("want a path or a URL")
		}
		return remoteRepo{}, nil
	}
	u, err := url.Parse(source)
	if err != nil {
		return remoteRepo{}, errors.New("want a path or a URL")
	}
	_, password := u.User.Password()
	if u.Scheme == "ssh" && u.Host != "" && !password {
		return remoteRepo{host: strings.ToLower(u.Hostname()), path: trim(u.Path)}, nil
	}
	u, err = analytics.ParseServiceURL(source, analytics.URLRules{
		Example: "https://github.com/owner/name", CredentialsIn: "the token goes into DOCGAUGE_SITE_TOKEN",
	})
	if err != nil {
		return remoteRepo{}, err
	}
	u.Host = strings.ToLower(u.Host)
	return remoteRepo{host: u.Host, path: trim(u.Path), web: u}, nil
}

// project returns the path of the repository on a code host with an API at a URL, and that host.
func (p remoteRepo) project(kind codehost.Host, apiURL string) (path, host string, err error) {
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
	if p.web != nil { // the web server can have a path before the repository; the SSH server has none
		path, same = strings.CutPrefix("/"+p.path, web.Path+"/")
		same = same && p.web.Scheme == web.Scheme && p.host == web.Host
	}
	if !same {
		return "", "", fmt.Errorf("is on %s, but DOCGAUGE_SITE_CODE_HOST_URL is for repositories below %s, and the token "+
			"is for them alone", p.host, web)
	}
	return path, web.Host, nil
}
