package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestEnvFileLines: the setting or the problem of a line.
func TestEnvFileLines(t *testing.T) {
	for line, want := range map[string]string{
		`A=b`:                             `A=b`,
		` A = b `:                         `A=b`,
		"A=b\r":                           `A=b`,
		`A=`:                              `A=`,
		`A=""`:                            `A=`,
		`# A=b`:                           `=`,
		`;A=b`:                            `=`,
		"\t":                              `=`,
		`A=17 * * * *`:                    `A=17 * * * *`,
		`A="17 * * * *"`:                  `A=17 * * * *`,
		`A='it''s'`:                       "!after the closing quote",
		`A="say \"hi\" \\ \$5 \n"`:        `A=say "hi" \ $5 \n`,
		`A='\"$(id)'`:                     `A=\"$(id)`,
		`A=$(id) ${HOME} $HOME` + " `id`": "A=$(id) ${HOME} $HOME `id`",
		`A=b#c`:                           `A=b#c`,
		`A=it's`:                          `A=it's`,
		`A=b=c`:                           `A=b=c`,
		`A="b # c"`:                       `A=b # c`,
		`A=b # c`:                         "!comment needs a line of its own",
		`A=# c`:                           "!comment needs a line of its own",
		`A="b" # c`:                       "!comment needs a line of its own",
		`A="b`:                            "!not closed",
		`A="b\"`:                          "!not closed",
		`A='`:                             "!not closed",
		`A=b\`:                            "!'single quotes'",
		`A=C:\dir`:                        "!'single quotes'",
		"A=b\x00c":                        "!control character",
		"A=\x1b[1m":                       "!control character",
		`A`:                               "!want KEY=VALUE",
		`=b`:                              "!want KEY=VALUE",
		`9A=b`:                            "!want KEY=VALUE",
		`A B=c`:                           "!want KEY=VALUE",
		`export A=b`:                      `!without "export"`,
		`[Service]`:                       "!want KEY=VALUE",
	} {
		key, value, err := parseEnvLine(line)
		got := key + "=" + value
		says, bad := strings.CutPrefix(want, "!")
		if bad && (err == nil || !strings.Contains(err.Error(), says)) || !bad && (err != nil || got != want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
}

// TestEnvFile: a byte order mark, lines of Windows, and every problem with its line.
func TestEnvFile(t *testing.T) {
	f := ParseSource("x.env", "\ufeffDOCGAUGE_BUDGET=5\r\n\r\nDOCGAUGE_BUDGE=6\r\nPATH=/bin\r\nDOCGAUGE_BUDGET=7\n"+
		"hunter22=\nDOCGAUGE_ENV_FILE=y\nAWS_REGION=eu-west-1\nhttps_proxy=http://proxy\n")
	want := []string{
		"x.env:3: DOCGAUGE_BUDGE: unknown variable; did you mean DOCGAUGE_BUDGET?",
		"x.env:4: PATH: nothing here reads it",
		"x.env:5: DOCGAUGE_BUDGET: is on line 1 already",
		"x.env:6: variable: nothing here reads it",
		"x.env:7: DOCGAUGE_ENV_FILE: ",
	}
	for i, text := range want {
		if len(f.Problems) != len(want) || !strings.HasPrefix(f.Problems[i], text) {
			t.Fatalf("%v\nwant the beginnings %v", f.Problems, want)
		}
	}
	if !slices.Equal(f.lines, []envLine{
		{"DOCGAUGE_BUDGET", "5", 1}, {"AWS_REGION", "eu-west-1", 8}, {"https_proxy", "http://proxy", 9},
	}) {
		t.Errorf("%v", f.lines)
	}
	if bad := ParseSource("x.env", "A=\xff"); len(bad.Problems) != 1 || !strings.Contains(bad.Problems[0], "UTF-8") {
		t.Errorf("%v", bad.Problems)
	}
}

// TestAgentVariables: a file may have the variables that DOCGAUGE_SITE_AGENT_ENV names, whether it or the environment
// sets that. Settings of the environment win, and secrets are not shown.
func TestAgentVariables(t *testing.T) {
	t.Setenv("MODEL_NAME", "of the environment")
	const list = "DOCGAUGE_SITE_AGENT_ENV=MODEL_KEY,+MODEL_NAME,+MODEL_PLACE"
	const variables = "\nMODEL_KEY=hunter22\nMODEL_NAME=x\nMODEL_PLACE=here\nMODEL_OTHER=y"
	for _, inFile := range []bool{true, false} {
		text := list + variables
		if !inFile {
			_, names, _ := strings.Cut(list, "=")
			t.Setenv("DOCGAUGE_SITE_AGENT_ENV", names)
			text = variables
		}
		s := ParseSource("x.env", text)
		if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "MODEL_OTHER: nothing here reads it") {
			t.Fatalf("%v", s.Problems)
		}
		s.Problems = nil
		settings, c, _ := s.Explain(0, time.Now())
		want := map[string]string{"MODEL_KEY": "hunter22", "MODEL_NAME": "of the environment", "MODEL_PLACE": "here"}
		if !maps.Equal(c.AgentVariables, want) {
			t.Errorf("%v", c.AgentVariables)
		}
		shown := map[string]string{}
		for _, one := range settings {
			shown[one.Name] = one.Value
		}
		if shown["MODEL_KEY"] != "[redacted]" || shown["MODEL_PLACE"] != "here" {
			t.Errorf("shown: %v", shown)
		}
	}
	path := writeEnvFile(t, 0o644, list+variables)
	if said := ReadSource(EnvFile{path, "--env-file"}, nil).Warnings; len(said) != 1 || !strings.Contains(said[0], "MODEL_KEY") {
		t.Errorf("readable by all: %v", said)
	}
}

// TestEnvFileIsRefused: only a regular file of a sensible size is read.
func TestEnvFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge")
	check(t, os.WriteFile(huge, []byte("#"+strings.Repeat("x", 1<<20)), 0o600))
	for path, says := range map[string]string{
		filepath.Join(dir, "none"): "no such file", dir: "is a directory", huge: "larger than 64 KiB",
	} {
		f := ReadSource(EnvFile{path, "--env-file"}, nil)
		if len(f.Problems) != 1 || !strings.Contains(f.Problems[0], says) || !strings.Contains(f.Problems[0], path) {
			t.Errorf("%v; want %q and the path", f.Problems, says)
		}
	}
}

func writeEnvFile(t *testing.T, mode os.FileMode, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.env")
	check(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), mode))
	if err := os.Chmod(path, mode); err != nil { // regardless of the umask
		t.Fatal(err)
	}
	return path
}

// TestEnvFileMode: a warning names the line of a secret in a world-readable file.
func TestEnvFileMode(t *testing.T) {
	for _, tc := range []struct {
		mode os.FileMode
		line string
		warn bool
	}{
		{0o600, "DOCGAUGE_API_KEY=sbx_hunter22", false}, {0o640, "DOCGAUGE_API_KEY=sbx_hunter22", false},
		{0o644, "DOCGAUGE_API_KEY=sbx_hunter22", true}, {0o604, "AWS_SECRET_ACCESS_KEY=hunter22", true},
		{0o644, "DOCGAUGE_API_KEY_FILE=key", false}, {0o644, "DOCGAUGE_API_KEY=", false},
	} {
		path := writeEnvFile(t, tc.mode, "# first", tc.line)
		said := strings.Join(ReadSource(EnvFile{path, "--env-file"}, nil).Warnings, "\n")
		isWarned := strings.HasPrefix(said, path+":2: ") && strings.Contains(said, "chmod 600 "+path)
		if isWarned != tc.warn || said != "" && !tc.warn || strings.Contains(said, "hunter22") {
			t.Errorf("%v %s: %q", tc.mode, tc.line, said)
		}
	}
}

// TestEnvironmentWins: over the file; a secret and its file are one setting. A problem with a value
// of the file names its line.
func TestEnvironmentWins(t *testing.T) {
	clearVariables(t)
	key := writeEnvFile(t, 0o600, "sbx_of-the-file")
	t.Setenv("DOCGAUGE_BUDGET", "7")
	t.Setenv("DOCGAUGE_API_KEY_FILE", key)
	t.Setenv("DOCGAUGE_GITHUB_TOKEN", "mine")
	t.Setenv("DOCGAUGE_OPEN_WINDOWS", "")
	t.Setenv("DOCGAUGE_PROJECTS", "") // empty: unset
	path := writeEnvFile(t, 0o600, "DOCGAUGE_BUDGET=8", "DOCGAUGE_TIMEOUT=9s", "DOCGAUGE_API_KEY=sbx_other",
		"DOCGAUGE_OPEN_WINDOWS=week", "DOCGAUGE_PROJECTS=prj_a", "DOCGAUGE_SETTLE=soon", "DOCGAUGE_CONCURRENCY=0",
		"DOCGAUGE_GITHUB_TOKEN_FILE=/nowhere", "DOCGAUGE_GITLAB_TOKEN_FILE="+key)
	f := ReadSource(EnvFile{path, "--env-file"}, nil)
	settings, c, err := f.Explain(NeedProjects, time.Now())
	if c.Budget != 7 || c.Timeout != Duration(9*time.Second) || string(c.APIKey) != "sbx_of-the-file" ||
		len(c.OpenWindows) != 0 || c.Projects[0] != "prj_a" || c.GitHubToken != "mine" || c.GitLabToken != c.APIKey {
		t.Errorf("%+v", c)
	}
	want := fmt.Sprintf("configuration:\n"+
		"  %[1]s:6: DOCGAUGE_SETTLE: \"soon\": want a duration like 90s, 15m, 72h or 3d\n"+
		"  %[1]s:7: DOCGAUGE_CONCURRENCY: 0 is not from 1 to 64", path)
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	for _, want := range []Setting{
		{"DOCGAUGE_BUDGET", "Windows and budget", "7", "environment", 0},
		{"DOCGAUGE_TIMEOUT", "Windows and budget", "9s", path, 2},
		{"DOCGAUGE_SETTLE", "Windows and budget", "soon", path, 6},
		{"DOCGAUGE_SINKS", "Sinks", "parquet", "default", 0},
		{"DOCGAUGE_API_KEY", "Platform", "", "default", 0},
		{"DOCGAUGE_API_KEY_FILE", "Platform", key, "environment", 0},
		{"DOCGAUGE_OPEN_WINDOWS", "Windows and budget", "", "environment", 0},
	} {
		if !slices.Contains(settings, want) {
			t.Errorf("%+v is not among %+v", want, settings)
		}
	}
}

// TestOnly: only the named variables stay set, with the files of secrets; a misspelt name is still
// an error.
func TestOnly(t *testing.T) {
	for key, value := range map[string]string{
		"DOCGAUGE_SINKS": "postgres", "DOCGAUGE_POSTGRES_DSN_FILE": "dsn", "DOCGAUGE_GITHUB_TOKEN_FILE": "token",
		"DOCGAUGE_PROMPTS_DIR": "prompts", "AWS_REGION": "eu-west-1", "DOCGAUGE_SNIKS": "parquet",
	} {
		t.Setenv(key, value)
	}
	s := ParseSource("docgauge.env", "DOCGAUGE_NOTIFY_URL=https://hooks.example/x\nDOCGAUGE_LOG_LEVEL=warn\n").
		Only("DOCGAUGE_SINKS", "DOCGAUGE_POSTGRES_DSN", "DOCGAUGE_LOG_LEVEL")
	for key, want := range map[string]bool{
		"DOCGAUGE_SINKS": true, "DOCGAUGE_POSTGRES_DSN_FILE": true, "DOCGAUGE_GITHUB_TOKEN_FILE": false,
		"DOCGAUGE_PROMPTS_DIR": false, "AWS_REGION": true, "DOCGAUGE_NOTIFY_URL": false, "DOCGAUGE_LOG_LEVEL": true,
	} {
		if _, set := s.Lookup(key); set != want {
			t.Errorf("%s is set: %t", key, set)
		}
	}
	_, err := s.Load(NeedNothing, time.Now())
	if err == nil || !strings.Contains(err.Error(), "DOCGAUGE_SNIKS: unknown variable") {
		t.Errorf("%v", err)
	}
}

func TestDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3d": 72 * time.Hour, "0d": 0, "72h": 72 * time.Hour, "d": -1, "-1d": -1, "1.5d": -1, "99999d": -1, "3 d": -1,
	} {
		var d Duration
		if err := d.Decode(text); (err != nil) != (want < 0) || err == nil && d != Duration(want) {
			t.Errorf("%q: %v, %v", text, time.Duration(d), err)
		}
	}
}

// FuzzEnvFile: the parser never panics, and no message shows a value. Each setting that it
// returns is a variable that something reads, with the value in the text.
func FuzzEnvFile(f *testing.F) {
	for _, seed := range []string{
		"", "DOCGAUGE_BUDGET=5", "A='", `DOCGAUGE_API_KEY="a\"b"`, "\ufeff# x\r\n;y\nexport A=b", "AWS_REGION=\x00",
		"DOCGAUGE_SCHEDULE=\"17 * * * *\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := ParseSource("x.env", text)
		for _, p := range file.Problems {
			if !strings.HasPrefix(p, "x.env:") || strings.ContainsAny(p, "\n\x00") || len(p) > 400 && len(text) < 300 {
				t.Errorf("%q", p)
			}
		}
		for _, v := range file.lines {
			if checkKey(v.key) != nil || !utf8.ValidString(v.value) || strings.ContainsAny(v.value, "\n\x00") ||
				v.number < 1 || v.number > strings.Count(text, "\n")+1 {
				t.Errorf("%+v", v)
			}
			if _, back, err := parseEnvLine("A=" + QuoteEnv(v.value)); err != nil || back != v.value {
				t.Errorf("%q is quoted as %s and read back as %q: %v", v.value, QuoteEnv(v.value), back, err)
			}
			if quoted := strings.ContainsAny(v.value, "\\\"$`"); !quoted && !strings.Contains(text, v.value) {
				t.Errorf("%q is not in the text", v.value)
			}
		}
	})
}

// TestDocumentedEnvFile reads the example of the documentation.
func TestDocumentedEnvFile(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	check(t, err)
	_, block, _ := strings.Cut(string(page), "```ini\n")
	block, _, _ = strings.Cut(block, "```")
	f := ParseSource("x.env", block)
	if len(f.Problems) > 0 || len(f.lines) != 5 || f.lines[4].value != `a$b\c` {
		t.Errorf("%v %v", f.Problems, f.lines)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestReload: the file is read again below the environment and the flags of the start. Settings that
// are wrong or fixed are refused; the variables of libraries change with Export alone.
func TestReload(t *testing.T) {
	clearVariables(t)
	t.Setenv("DOCGAUGE_BUDGET", "7")
	t.Setenv("DOCGAUGE_LOG_LEVEL", "error")
	t.Setenv("AWS_PROFILE", "mine")
	for _, name := range []string{"AWS_REGION", "SSL_CERT_DIR"} {
		t.Setenv(name, "") // is restored at the end
		check(t, os.Unsetenv(name))
	}
	path := writeEnvFile(t, 0o600, "DOCGAUGE_PROJECTS=prj_a", "DOCGAUGE_BUDGET=8", "DOCGAUGE_LOG_LEVEL=warn",
		"DOCGAUGE_TIMEOUT=9s", "AWS_REGION=one", "AWS_PROFILE=other")
	s := ReadSource(EnvFile{path, "--env-file"}, map[string]Flag{"DOCGAUGE_LOG_LEVEL": {"--log.level", "debug"}})
	c, err := s.Load(NeedProjects, time.Now())
	if err != nil || c.Projects[0] != "prj_a" || c.Budget != 7 || c.LogLevel != slog.LevelDebug ||
		c.Timeout != Duration(9*time.Second) {
		t.Fatalf("%+v, %v", c, err)
	}
	exported := func(s *Source, region string) {
		t.Helper()
		if err := s.Export(); err != nil || os.Getenv("AWS_REGION") != region || os.Getenv("AWS_PROFILE") != "mine" {
			t.Errorf("AWS_REGION=%s, %v; want %s", os.Getenv("AWS_REGION"), err, region)
		}
	}
	exported(s, "one")
	const fixed = "serve cannot change it while it runs: restart it, or set it back; nothing was reloaded"
	for text, want := range map[string][]string{
		"DOCGAUGE_CONCURRENCY=0\nAWS_REGION=two":     {"2: DOCGAUGE_CONCURRENCY: 0 is not from 1 to 64"},
		"DOCGAUGE_PROJECT=prj_b":                     {"2: DOCGAUGE_PROJECT: unknown variable"},
		"DOCGAUGE_STATE_DIR=x\nSSL_CERT_DIR=/secret": {"2: DOCGAUGE_STATE_DIR: " + fixed, "3: SSL_CERT_DIR: " + fixed},
		"DOCGAUGE_LISTEN_ADDRESS=:1":                 {"2: DOCGAUGE_LISTEN_ADDRESS: " + fixed},
		"DOCGAUGE_WEB_CONFIG_FILE=w":                 {"2: DOCGAUGE_WEB_CONFIG_FILE: " + fixed},
		"DOCGAUGE_LOG_FORMAT=json":                   {"2: DOCGAUGE_LOG_FORMAT: " + fixed},
	} {
		rewrite(t, path, "DOCGAUGE_PROJECTS=prj_b\n"+text)
		_, kept, err := s.Reload(NeedProjects, time.Now(), c)
		_, bad := errors.AsType[Problems](err)
		for _, w := range want {
			if !bad || !strings.Contains(err.Error(), path+":"+w) || strings.Contains(err.Error(), "/secret") ||
				kept.Projects[0] != "prj_a" {
				t.Errorf("%s: %v, want %s", text, err, w)
			}
		}
	}
	rewrite(t, path, "DOCGAUGE_PROJECTS=prj_b\nDOCGAUGE_LOG_LEVEL=warn\nDOCGAUGE_BUDGET=9\nAWS_REGION=two\n")
	next, c, err := s.Reload(NeedProjects, time.Now(), c)
	if err != nil || c.Projects[0] != "prj_b" || c.Budget != 7 || c.LogLevel != slog.LevelDebug ||
		c.Timeout != Duration(time.Minute) || os.Getenv("AWS_REGION") != "one" {
		t.Fatalf("%+v, %v", c, err)
	}
	exported(next, "two")
	// Removed settings are gone, a second reload works, and the first source can be restored.
	rewrite(t, path, "DOCGAUGE_PROJECTS=prj_c\n")
	next, c, err = next.Reload(NeedProjects, time.Now(), c)
	if err != nil || c.Projects[0] != "prj_c" {
		t.Fatalf("%v, %v", c.Projects, err)
	}
	exported(next, "")
	if _, set := os.LookupEnv("AWS_REGION"); set {
		t.Error("AWS_REGION is still set")
	}
	exported(s, "one")
}

// TestFixedLibraries: a reload cannot set, change or remove a variable that a library reads once, at the start.
func TestFixedLibraries(t *testing.T) {
	clearVariables(t)
	for _, name := range []string{"NO_PROXY", "SSL_CERT_DIR"} {
		t.Setenv(name, "") // so that it is set back
		check(t, os.Unsetenv(name))
	}
	path := writeEnvFile(t, 0o600, "NO_PROXY=a")
	s := ReadSource(EnvFile{path, "--env-file"}, nil)
	c, err := s.Load(NeedNothing, time.Now())
	check(t, err)
	for text, refused := range map[string]bool{"NO_PROXY=a": false, "NO_PROXY=b": true, "": true,
		"NO_PROXY=a\nSSL_CERT_DIR=": true} {
		rewrite(t, path, text)
		if _, _, err := s.Reload(NeedNothing, time.Now(), c); (err != nil) != refused {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFlags: a problem with the value of a flag names the flag, and an empty one is the default.
func TestFlags(t *testing.T) {
	clearVariables(t)
	t.Setenv("DOCGAUGE_LISTEN_ADDRESS", ":1")
	path := writeEnvFile(t, 0o600, "DOCGAUGE_LISTEN_ADDRESS=:2", "DOCGAUGE_LOG_FORMAT=json")
	c, err := ReadSource(EnvFile{path, "--env-file"}, map[string]Flag{
		"DOCGAUGE_LISTEN_ADDRESS": {"--web.listen-address", ""}, "DOCGAUGE_LOG_FORMAT": {"--log.format", "loud"},
	}).Load(NeedNothing, time.Now())
	if !slices.Equal(c.ListenAddress, Addresses{"127.0.0.1:9817"}) || err == nil ||
		!strings.Contains(err.Error(), `--log.format: DOCGAUGE_LOG_FORMAT: "loud": want text or json`) {
		t.Errorf("%v, %v", c.ListenAddress, err)
	}
}
