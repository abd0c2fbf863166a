package docker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// instruction is one of a Dockerfile: RUN and what follows it.
type instruction struct{ Name, Text string }

// words are those of the text without flags.
func (i instruction) words() (words []string) {
	for _, word := range strings.Fields(i.Text) {
		if !strings.HasPrefix(word, "--") {
			words = append(words, word)
		}
	}
	return words
}

// flag is the value of --name=value.
func (i instruction) flag(name string) string {
	for _, word := range strings.Fields(i.Text) {
		if value, ok := strings.CutPrefix(word, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// stage is what one FROM begins, itself included.
type stage []instruction

// all returns the instructions of a name.
func (s stage) all(name string) (found []instruction) {
	for _, i := range s {
		if i.Name == name {
			found = append(found, i)
		}
	}
	return found
}

// exec returns the argument list of the one instruction of a name, which must
// have the exec form; for HEALTHCHECK that of its CMD.
func (s stage) exec(t *testing.T, name string) (argv []string) {
	t.Helper()
	found := s.all(name)
	if len(found) != 1 {
		t.Fatalf("%d %s, want one", len(found), name)
	}
	text := found[0].Text
	if at := strings.Index(text, "CMD "); at >= 0 {
		text = text[at+len("CMD "):]
	}
	if err := json.Unmarshal([]byte(text), &argv); err != nil {
		t.Fatalf("%s %s: want the exec form, [\"program\", …]: %v", name, text, err)
	}
	return argv
}

// stages reads the Dockerfile.
func stages(t *testing.T) (all []stage) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	clean := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(string(text), "")
	clean = strings.ReplaceAll(clean, "\\\n", " ")
	for line := range strings.Lines(clean) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		if name == "FROM" {
			all = append(all, nil)
		}
		last := len(all) - 1
		all[last] = append(all[last], instruction{name, strings.TrimSpace(rest)})
	}
	return all
}

// environment of a stage: ARG defaults, or ENV.
func (s stage) environment(name string) (env []string) {
	for _, i := range s.all(name) {
		for _, word := range i.words() {
			if strings.Contains(word, "=") {
				env = append(env, word)
			}
		}
	}
	return env
}

func TestRules(t *testing.T) {
	all := stages(t)
	if len(all) != 2 {
		t.Fatalf("%d stages, want 2", len(all))
	}
	final := all[1]
	for _, s := range all {
		image := s.all("FROM")[0].words()[0]
		_, tag, _ := strings.Cut(image, ":")
		if tag == "" || tag == "latest" {
			t.Errorf("FROM %s: want a tag other than latest", image)
		}
		for _, i := range slices.Concat(s.all("ARG"), s.all("ENV")) {
			if regexp.MustCompile(`(?i)KEY|SECRET|PASSWORD|TOKEN|DSN`).MatchString(i.Text) {
				t.Errorf("%s %s: a secret would stay in the image's history", i.Name, i.Text)
			}
		}
		if len(s.all("ADD")) > 0 {
			t.Error("ADD: want COPY")
		}
	}
	if user := final.all("USER"); len(user) != 1 || !regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(user[0].Text) {
		t.Errorf("USER %v: want one number:number that is not root, which Kubernetes can check", user)
	}
	if len(final.all("RUN")) > 0 {
		t.Error("RUN in an image that has no shell")
	}
	for _, name := range []string{"ENTRYPOINT", "CMD", "HEALTHCHECK", "VOLUME"} {
		final.exec(t, name)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if !strings.Contains(final.all("LABEL")[0].Text, "org.opencontainers.image."+label+"=") {
			t.Errorf("no label org.opencontainers.image.%s", label)
		}
	}
}

// TestIgnored: nothing private enters the build context.
func TestIgnored(t *testing.T) {
	ignored := readIgnore(t)
	for path, want := range map[string]bool{
		".git/config": true, ".env": true, "state/docgauge.db": true, "data/x.parquet": true, "deploy/compose/secrets/api_key": true, "bin/docgauge": true,
		"internal/cli/main_test.go": true, "internal/cli/testdata/script/serve.txtar": true,
		"go.mod": false, "cmd/docgauge/main.go": false, "internal/state/migrations/0001_ledger.sql": false,
	} {
		if got := ignored(path); got != want {
			t.Errorf("%s: ignored %v, want %v", path, got, want)
		}
	}
}

// readIgnore reads .dockerignore: the forms it uses are *, !name and **/pattern.
func readIgnore(t *testing.T) func(path string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	return func(path string) (ignored bool) {
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			below, anywhere := strings.CutPrefix(line, "**/")
			kept, keep := strings.CutPrefix(line, "!")
			switch {
			case line == "" || line[0] == '#':
			case line == "*":
				ignored = true
			case keep && (path == kept || strings.HasPrefix(path, kept+"/")):
				ignored = false
			case anywhere && slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { ok, _ := filepath.Match(below, name); return ok }):
				ignored = true
			}
		}
		return ignored
	}
}
