package serve

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
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
	Private     map[string]string      // files and directories that agents must not read, by the settings that name them
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

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// realPath returns the absolute path of a file, without links where it exists.
func realPath(name string) string {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if path, err := filepath.Abs(name); err == nil {
		name = path
	}
	return name
}

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
	preset := slices.Contains(runner.Presets(), s.Agent)
	switch {
	case s.Agent != "command" && !preset:
		add("AGENT: %.40q: want %s", s.Agent, agentNames())
	case preset && s.Command != "":
		add("AGENT_COMMAND: has no effect with DOCGAUGE_SITE_AGENT=%s: unset it", s.Agent)
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
		case !plain && strings.HasSuffix(name, "_MODEL"):
			add("AGENT_ENV: %.60s: is a setting; as a secret, its value would be refused in changes: want +%[1]s", name)
		case !plain && len(strings.TrimSpace(value)) < runner.MinSecret:
			add("AGENT_ENV: %.60s: has less than %d bytes, too few to be found as a secret: want +%[1]s if it is none", name,
				runner.MinSecret)
		}
	}
	if preset && s.Jail == "bubblewrap" && len(r.hosts) == 0 && s.URL == "" {
		if r.hosts = runner.DefaultHosts(s.Agent, r.variables()); len(r.hosts) == 0 {
			add("AGENT_HOSTS: missing; the hosts of the cloud that has the models of %s", s.Agent)
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
	for _, dir := range r.tools {
		for _, name := range slices.Sorted(maps.Keys(s.Private)) {
			if strings.HasPrefix(realPath(s.Private[name])+"/", strings.TrimRight(realPath(dir), "/")+"/") {
				add("AGENT_TOOLS: %s: has %s in it, which agents must not read: name the programs' directories", dir, name)
			}
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

// variables are the names of the agent's variables.
func (r *JobRules) variables() (names []string) {
	for _, v := range r.env {
		names = append(names, v.Name)
	}
	return names
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
		project, source, branch := codehost.SplitSource(text)
		if project == "" {
			if project = projects[0]; len(projects) > 1 {
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
		o := runner.RepoOptions{Base: branch, Command: s.Command, Check: s.Check, CheckTries: s.CheckTries,
			Timeout: s.Timeout, MaxDisk: s.MaxDisk, Env: r.env, OwnHome: true, Allow: format.List(s.Allow),
			Refuse: format.List(s.Refuse), Token: s.Token, Gateway: r.gateway,
			Labels: format.List(s.Labels), Draft: s.Draft, HidePrompt: s.HidePrompt}
		if s.Agent != "command" {
			o.Preset = s.Agent
		}
		repo, err := codehost.Locate(source, s.CodeHost, s.CodeHostURL)
		if err != nil {
			add("%w", err)
			continue
		}
		o.Path, o.URL, o.CodeHost, o.CodeHostURL, o.Project = repo.Path, repo.URL, repo.Kind, repo.API, repo.Project
		if o.CodeHost != "" && s.Token == nil {
			add("needs DOCGAUGE_SITE_TOKEN, which may read the repository and open pull requests")
		}
		tokenFor := repo.TokenFor
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
