package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/docsapi"
)

// MaxTopPages is the number of pages of a newest window in the state, so that DOCGAUGE_TOP_PAGES
// can be raised up to it without another read.
const MaxTopPages = 1000

// defaultDays is the number of days that are backfilled unless DOCGAUGE_SINCE is set: at least two
// whole months.
const defaultDays = 90

// require checks that the settings a command needs are there.
func (c *Config) require(n Need, p *Problems) {
	if n&NeedAPI != 0 {
		if c.BaseURL == "" {
			p.add("DOCGAUGE_BASE_URL: missing; the service's base URL, like https://api.example.com")
		}
		if !c.has("DOCGAUGE_API_KEY", c.APIKey) {
			p.add("DOCGAUGE_API_KEY: missing; an admin key from the API keys page of the dashboard " +
				"(or DOCGAUGE_API_KEY_FILE)")
		}
	}
	if n&NeedPrompts != 0 && c.PromptsDir == "" {
		p.add("DOCGAUGE_PROMPTS_DIR: missing; the folder of prompt files")
	}
	if n&NeedSite != 0 && c.SiteLogs == "" {
		p.add("DOCGAUGE_SITE_LOGS: missing; the access logs of the site, like /var/log/nginx/access.log*")
	}
	isReported := func(text string) bool { return strings.HasPrefix(text, "DOCGAUGE_PROJECTS:") }
	if n&NeedProjects != 0 && len(c.Projects) == 0 && !slices.ContainsFunc(*p, isReported) {
		p.add("DOCGAUGE_PROJECTS: missing; comma-separated project ids from the API keys page of the dashboard")
	}
}

// has reports whether a secret is given, even by a file that could not be read.
func (c *Config) has(variable string, value Secret) bool {
	return value != "" || c.SecretFiles[variable] != ""
}

// validate checks the form of the settings, and completes DOCGAUGE_SINCE.
func (c *Config) validate(now time.Time, p *Problems) {
	today := analytics.DateOf(now)
	if !c.Since.Set {
		c.Since = OptionalDate{today - defaultDays, true}
	}
	if c.Since.Date > today {
		p.add("DOCGAUGE_SINCE: %s is after today, %s (UTC): there would be nothing to export; is the clock right?",
			c.Since.Date, today)
	}
	if c.BaseURL != "" || c.APIKey != "" {
		url, key := cmp.Or(c.BaseURL, "https://unset.invalid"), cmp.Or(string(c.APIKey), "unset_unset")
		_, err := docsapi.New(docsapi.ClientOptions{BaseURL: url, APIKey: docsapi.StaticKey(key)})
		p.join(err)
	}
	for _, v := range Variables() {
		v.checkRange(c, p)
	}
	if c.TopPages > MaxTopPages {
		p.add("DOCGAUGE_TOP_PAGES: %v is not from 0 to %v", c.TopPages, MaxTopPages)
	}
	c.validateSinks(p)
	for _, report := range c.Reports {
		if !slices.ContainsFunc(c.Windows, func(s analytics.Spec) bool { return report.HasWindows(s.Granularity) }) {
			p.add("DOCGAUGE_REPORTS: all windows of %s are days: add day to DOCGAUGE_WINDOWS", report)
		}
	}

	if c.Textfile != "" && filepath.Ext(c.Textfile) != ".prom" {
		p.add("DOCGAUGE_TEXTFILE: %s: node_exporter reads only files whose name ends in .prom", c.Textfile)
	}
	if c.PushgatewayURL != "" {
		if err := exporter.ParsePushURL(string(c.PushgatewayURL)); err != nil {
			p.add("DOCGAUGE_PUSHGATEWAY_URL: %v", err)
		}
	}

	c.validateNotifications(p)

	p.join(docsapi.CheckJobPath(c.JobPath))
	if c.WriteAPIKey != "" && docsapi.CheckKey(string(c.WriteAPIKey)) != nil {
		p.add("DOCGAUGE_WRITE_API_KEY: want <prefix>_<secret>, printable ASCII without spaces, " +
			"as the API keys page of the dashboard shows it")
	}

	_, err := codehost.New(codehost.Options{GitHubURL: c.GitHubURL, GitLabURL: c.GitLabURL, GiteaURL: c.GiteaURL})
	p.join(err)
	tokens := map[string]Secret{"GITHUB": c.GitHubToken, "GITLAB": c.GitLabToken, "GITEA": c.GiteaToken}
	for _, host := range slices.Sorted(maps.Keys(tokens)) {
		if token := string(tokens[host]); token != "" && !IsToken(token) {
			p.add("DOCGAUGE_%s_TOKEN: want one token, printable ASCII without spaces", host)
		}
	}
	switch {
	case c.MaxCostPerDay == 0:
	case c.JobCost == 0:
		p.add("DOCGAUGE_MAX_COST_PER_DAY: needs DOCGAUGE_JOB_COST, in the same unit, for jobs whose cost is not known yet")
	case c.JobCost > c.MaxCostPerDay:
		p.add("DOCGAUGE_MAX_COST_PER_DAY: %v is less than DOCGAUGE_JOB_COST, %v: no job could begin",
			float64(c.MaxCostPerDay), float64(c.JobCost))
	}
	capped := c.MaxOpenPulls > 0 || c.MaxReviewAge > 0
	if capped && c.PromptsDir != "" && c.GitHubToken == "" && c.GitLabToken == "" && c.GiteaToken == "" {
		c.Warnings = append(c.Warnings, "DOCGAUGE_MAX_OPEN_PULL_REQUESTS, DOCGAUGE_MAX_REVIEW_AGE: without "+
			"DOCGAUGE_GITHUB_TOKEN, DOCGAUGE_GITLAB_TOKEN or DOCGAUGE_GITEA_TOKEN every pull request counts as open, "+
			"for ever")
	}
}

func (c *Config) validateNotifications(p *Problems) {
	hasReceiver := c.has("DOCGAUGE_NOTIFY_URL", c.NotifyURL)
	if c.NotifyURL != "" {
		_, err := ParseHookURL("DOCGAUGE_NOTIFY_URL", c.NotifyURL)
		p.join(err)
	}
	if c.NotifySecret != "" && !hasReceiver {
		p.add("DOCGAUGE_NOTIFY_SECRET: without DOCGAUGE_NOTIFY_URL it has no effect")
	}
	if c.PingURL != "" {
		_, err := ParseHookURL("DOCGAUGE_PING_URL", c.PingURL)
		p.join(err)
	}
	digest := c.Digest.String()
	switch {
	case digest == "":
	case !hasReceiver:
		p.add("DOCGAUGE_DIGEST: without DOCGAUGE_NOTIFY_URL it has no effect")
	case strings.HasPrefix(digest, "@every"):
		p.add("DOCGAUGE_DIGEST: @every counts from the start of the process: want five fields, like 0 7 * * 1")
	case !slices.ContainsFunc(c.Windows, func(s analytics.Spec) bool { return s.Granularity == analytics.Week }):
		p.add("DOCGAUGE_DIGEST: it is about weeks: add week to DOCGAUGE_WINDOWS")
	}
}

// IsToken reports whether a text can be a token of a code host.
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}
