package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
)

var check = testbed.Check

// FuzzConfig: no value of any variable makes the configuration panic or say much, and a bad
// secret is never quoted.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"", "day,week", "28d:totals", "-1", "1GiB", "72h", "prj_a,prj_b", "2026-02-30", "a_b", "\x00", "https://x/?k=v",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.ContainsRune(value, 0) || len(value) < 8 {
			return // not possible in an environment; too short to recognize in the message
		}
		clearVariables(t)
		t.Setenv("DOCGAUGE_API_KEY", value)
		c, err := ReadSource(EnvFile{}, nil).Load(NeedAPI, time.Now())
		const rule = "want <prefix>_<secret>, printable ASCII without spaces, " +
			"as the API keys page of the dashboard shows it"
		if err != nil && strings.Contains(err.Error(), value) && !strings.Contains(rule, value) {
			t.Errorf("the message shows the key: %v", err)
		}
		if c.BaseURL != "" {
			t.Error("a base URL from nowhere")
		}
	})
}

func clearVariables(t *testing.T) {
	for _, v := range Variables() {
		if old, set := os.LookupEnv(v.Name); set {
			t.Setenv(v.Name, old) // put back at the end
			os.Unsetenv(v.Name)
		}
	}
}

// TestSecretIsNotPrinted: no formatting of the configuration shows a key.
func TestSecretIsNotPrinted(t *testing.T) {
	const key = "sbx_not-to-be-seen"
	c := Config{APIKey: key}
	text, err := json.Marshal(c)
	check(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", c.APIKey, "config", c)
	for _, said := range []string{
		string(text), log.String(), fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c),
		fmt.Sprintf("%s %q %v", c.APIKey, c.APIKey, &c),
	} {
		if strings.Contains(said, "not-to-be-seen") {
			t.Errorf("the key is shown: %s", said)
		}
	}
}

// TestValues: valid and invalid values; no message quotes a token.
func TestValues(t *testing.T) {
	for set, want := range map[string]string{
		"GITHUB_URL=http://git.example.com":          "DOCGAUGE_GITHUB_URL: http would send credentials in the clear",
		"GITLAB_URL=https://u:p@git.example.com":     "DOCGAUGE_GITLAB_URL: must not contain user",
		"GITHUB_TOKEN=ghp_secret of two":             "DOCGAUGE_GITHUB_TOKEN: want one token",
		"GITLAB_TOKEN=glpat-sécret":                  "DOCGAUGE_GITLAB_TOKEN: want one token",
		"GITEA_TOKEN=a b":                            "DOCGAUGE_GITEA_TOKEN: want one token",
		"GITEA_URL=git.example.com":                  "DOCGAUGE_GITEA_URL: want",
		"MAX_REVIEW_AGE=366d":                        "DOCGAUGE_MAX_REVIEW_AGE: ",
		"RUN_TIMEOUT=59s":                            "DOCGAUGE_RUN_TIMEOUT: 59s is not from 1m0s to 720h0m0s",
		"CONCURRENCY=65":                             "DOCGAUGE_CONCURRENCY: 65 is not from 1 to 64",
		"MAX_OPEN_PULL_REQUESTS=-1":                  "DOCGAUGE_MAX_OPEN_PULL_REQUESTS: ",
		"SINKS=parquet, delta,parquet":               `DOCGAUGE_SINKS: sink "parquet": listed twice`,
		"PROJECTS=prj_a,prj_b,prj_a":                 `DOCGAUGE_PROJECTS: project id "prj_a": listed twice`,
		"WINDOWS=day,week,day:totals":                `DOCGAUGE_WINDOWS: granularity "day": listed twice`,
		"JOB_COST=NaN":                               "DOCGAUGE_JOB_COST: ",
		"JOB_COST=-0.1":                              "DOCGAUGE_JOB_COST: ",
		"ALLOWED_HOSTS=docgauge,https://a.example":   `DOCGAUGE_ALLOWED_HOSTS: "https://a.example": want host names`,
		"ALLOWED_HOSTS=a.example:9817":               "DOCGAUGE_ALLOWED_HOSTS: ",
		"ALLOWED_HOSTS=a..example":                   "DOCGAUGE_ALLOWED_HOSTS: ",
		"ALLOWED_HOSTS=Docs.Example, docgauge":       "",
		"GITHUB_URL=http://127.0.0.1:8080/github":    "",
		"GITLAB_URL=https://git.example.com/api/v4":  "",
		"GITEA_URL=https://git.example.com/x/api/v1": "",
		"SITE_HUMANS=confirmed":                      "",
		"SITE_HUMANS=humans":                         `DOCGAUGE_SITE_HUMANS: "humans": want claimed or confirmed`,
		"SITE_HOSTS=docs.example.com,example.com":    "",
		"SITE_HOSTS=https://docs.example.com":        `DOCGAUGE_SITE_HOSTS: "https://docs.example.com": want host names`,
		"JOB_COST=1.25":                              "",
		"MAX_COST_PER_DAY=20":                        "DOCGAUGE_MAX_COST_PER_DAY: needs DOCGAUGE_JOB_COST",
		"MAX_COST_PER_DAY=-1":                        "DOCGAUGE_MAX_COST_PER_DAY: ",
		"MAX_COST_PER_DAY=0":                         "",
	} {
		clearVariables(t)
		name, value, _ := strings.Cut(set, "=")
		t.Setenv("DOCGAUGE_"+name, value)
		_, err := ReadSource(EnvFile{}, nil).Load(NeedNothing, time.Now())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "ecret") || strings.Contains(err.Error(), "sécret")) {
			t.Errorf("%v", err)
		}
	}
}

// TestCostCap: the cap on cost leaves room for a job.
func TestCostCap(t *testing.T) {
	for most, want := range map[string]string{"2": "", "1.5": "1.5 is less than DOCGAUGE_JOB_COST, 2"} {
		clearVariables(t)
		t.Setenv("DOCGAUGE_JOB_COST", "2")
		t.Setenv("DOCGAUGE_MAX_COST_PER_DAY", most)
		_, err := ReadSource(EnvFile{}, nil).Load(NeedNothing, time.Now())
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "DOCGAUGE_MAX_COST_PER_DAY: "+want) {
			t.Errorf("%s: %v, want %q", most, err, want)
		}
	}
}

// TestReportsOfDays: views need days, and other reports any window.
func TestReportsOfDays(t *testing.T) {
	for windows, want := range map[string]string{"week,day": "", "week": "all windows of views are days: add day"} {
		clearVariables(t)
		t.Setenv("DOCGAUGE_REPORTS", "visitors,agents,views")
		t.Setenv("DOCGAUGE_WINDOWS", windows)
		_, err := ReadSource(EnvFile{}, nil).Load(NeedNothing, time.Now())
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "DOCGAUGE_REPORTS: "+want) {
			t.Errorf("%s: %v, want %q", windows, err, want)
		}
	}
}

// TestCapsWithoutToken: limits on pull requests without a token to read them cause a warning, once
// there is a queue.
func TestCapsWithoutToken(t *testing.T) {
	for set, want := range map[string]int{"": 0, "PROMPTS_DIR": 1, "PROMPTS_DIR GITLAB_TOKEN": 0,
		"PROMPTS_DIR GITEA_TOKEN": 0} {
		clearVariables(t)
		t.Setenv("DOCGAUGE_MAX_OPEN_PULL_REQUESTS", "1")
		for _, name := range strings.Fields(set) {
			t.Setenv("DOCGAUGE_"+name, "x")
		}
		if c, err := ReadSource(EnvFile{}, nil).Load(NeedNothing, time.Now()); err != nil || len(c.Warnings) != want {
			t.Errorf("%q: %q, %v", set, c.Warnings, err)
		}
	}
}

// TestSettings: each field is a setting with a whole name and a meaning, or is not read from the environment; a secret
// can be a file.
func TestSettings(t *testing.T) {
	c, names := reflect.TypeFor[Config](), map[string]bool{}
	for i := range c.NumField() {
		f, name := c.Field(i), c.Field(i).Tag.Get("envconfig")
		switch {
		case name == "" && f.Tag.Get("ignored") == "true":
		case !strings.HasPrefix(name, prefix), f.Tag.Get("desc") == "", names[name]:
			t.Errorf("field %s: the name %q, without %s or a meaning, or twice", f.Name, name, prefix)
		}
		names[name] = true
	}
	clearVariables(t)
	file := writeEnvFile(t, 0o644, " sbx_of-the-file\n")
	t.Setenv("DOCGAUGE_WRITE_API_KEY_FILE", file)
	got, err := ReadSource(EnvFile{}, nil).Load(NeedNothing, time.Now())
	if err != nil || got.WriteAPIKey != "sbx_of-the-file" || len(got.RestartSecrets()) > 0 || len(got.Warnings) != 1 ||
		got.NotifyChange != (Change{}) { // readers_changed is sent where it is asked for
		t.Errorf("%v, %v, %q", got, err, got.Warnings)
	}
	for text, want := range map[string]string{
		"": "DOCGAUGE_WRITE_API_KEY_FILE: the file is empty", "a b": "DOCGAUGE_WRITE_API_KEY: ",
	} {
		rewrite(t, file, text)
		_, err := ReadSource(EnvFile{}, nil).Load(NeedNothing, time.Now())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestEnvironment: what envconfig makes of the environment of the process, which is all that it reads. An empty value
// is none; a variable of another program is no setting; children inherit nothing of the file, whatever is wrong in it.
func TestEnvironment(t *testing.T) {
	clearVariables(t)
	for _, text := range []string{
		"DOCGAUGE_BUDGET=", "DOCGAUGE_SETTLE=", "DOCGAUGE_OPEN_WINDOWS=", "DOCGAUGE_SITE_METRICS_ADDRESS=",
		"DOCGAUGE_TIMEOUT=9s", "GITHUB_TOKEN=of-git", "BUDGET=1", "GITHUBTOKEN=of-git", "SECRETFILES=a:b",
		"BUILD_VERSION=1", "WARNINGS=one",
	} {
		name, value, _ := strings.Cut(text, "=")
		t.Setenv(name, value)
	}
	before := os.Environ()
	for text, problems := range map[string]int{
		"DOCGAUGE_SETTLE=5h": 0, "DOCGAUGE_TIMEOUT=soon": 0, "DOCGAUGE_CONCURRENCY=many\nDOCGAUGE_SPOOL_MAX=much": 2,
		"DOCGAUGE_NOTIFY_CHANGE=30%,5": 0, "DOCGAUGE_NOTIFY_CHANGE=30%,5%": 1, "DOCGAUGE_NOTIFY_CHANGE=0,5": 1,
	} {
		s := ParseSource("x.env", "DOCGAUGE_API_KEY=sbx_of-the-file\nDOCGAUGE_BUDGET=\n"+text)
		c, err := s.Load(NeedNothing, time.Now())
		found, _ := errors.AsType[Problems](err)
		if len(found) != problems || c.APIKey != "sbx_of-the-file" || c.Budget != 90 || c.Settle == 0 ||
			c.Timeout != Duration(9*time.Second) || len(c.OpenWindows) > 0 || c.SiteMetricsAddress != "" ||
			c.GitHubToken != "" || len(c.SecretFiles)+len(c.Warnings) > 0 || c.Build != (Build{}) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
		inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { return slices.Contains(before, v) })
		if len(os.Environ()) != len(before) || len(inherited) > 0 {
			t.Errorf("%s: children inherit %q", text, inherited)
		}
	}
}

// TestSourceWhileDecoding: a source that is made while another one is decoded has nothing of that one's file, and the
// environment never has a secret of it.
func TestSourceWhileDecoding(t *testing.T) {
	clearVariables(t)
	var all sync.WaitGroup
	defer all.Wait()
	loaded := make(chan bool)
	all.Go(func() {
		defer close(loaded)
		s := ParseSource("x.env", "DOCGAUGE_API_KEY=sbx_of-the-file\nDOCGAUGE_STATE_DIR=of-the-file\n")
		for range 200 {
			_, _ = s.Load(NeedNothing, time.Now())
		}
	})
	all.Go(func() {
		for range 200 {
			if _, set := ParseSource("", "").Lookup("DOCGAUGE_STATE_DIR"); set {
				t.Error("a new source has the state directory of the file")
				return
			}
		}
	})
	for {
		select {
		case <-loaded:
			return
		default:
		}
		if os.Getenv("DOCGAUGE_API_KEY") != "" {
			t.Fatal("the environment has the key of the file")
		}
	}
}

// TestSpareKey: only commands that ask the API need the file of its key. The commands of a site create it.
func TestSpareKey(t *testing.T) {
	clearVariables(t)
	t.Setenv("DOCGAUGE_BASE_URL", "https://api.example.com")
	t.Setenv("DOCGAUGE_SITE_LOGS", "access.log")
	for _, path := range []string{writeEnvFile(t, 0o600, ""), "/nowhere/key"} {
		t.Setenv("DOCGAUGE_API_KEY_FILE", path)
		for n, want := range map[Need]bool{NeedNothing: true, NeedSite: true, NeedAPI: false} {
			if _, err := ReadSource(EnvFile{}, nil).Load(n, time.Now()); (err == nil) != want {
				t.Errorf("%s, %d: %v", path, n, err)
			}
		}
	}
}

// TestSettingsAreUsed: each setting is read by more than its check. The compiler does not complain about
// one that is decoded, checked, documented, and then has no effect.
func TestSettingsAreUsed(t *testing.T) {
	read := regexp.MustCompile(`\b(?:c|config|Config|settings)\.([A-Z]\w*)`)
	used := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "dev" || strings.HasPrefix(d.Name(), ".git")):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"),
			filepath.Base(filepath.Dir(path)) == "config" && d.Name() != "options.go" && d.Name() != "sinks.go":
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range read.FindAllSubmatch(text, -1) {
			used[string(match[1])] = true
		}
		return err
	})
	check(t, err)
	all := reflect.TypeFor[Config]()
	for _, f := range reflect.VisibleFields(all) {
		if name := f.Tag.Get("envconfig"); name != "" && f.Name != "_" && !used[f.Name] {
			t.Errorf("%s has no effect: nothing outside this package, nor options.go or sinks.go, reads Config.%s",
				name, f.Name)
		}
	}
}
