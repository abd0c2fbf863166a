package deploy

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// stage has the instructions of a build stage by name: the arguments of RUN, COPY, ….
type stage map[string][]string

// stages reads the Dockerfile.
func stages(t *testing.T) (all []stage) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(read(t, "docker/Dockerfile"), "")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if name == "FROM" {
			all = append(all, stage{})
		}
		s := all[len(all)-1]
		s[name] = append(s[name], strings.TrimSpace(rest))
	}
	if len(all) != 2 {
		t.Fatalf("%d stages, want 2", len(all))
	}
	return all
}

// argv is the one instruction of a name, which must have the exec form; of
// HEALTHCHECK its CMD.
func (s stage) argv(t *testing.T, name string) (argv []string) {
	t.Helper()
	if len(s[name]) != 1 {
		t.Fatalf("%d %s, want one", len(s[name]), name)
	}
	text := s[name][0]
	if err := json.Unmarshal([]byte(text[strings.Index(text, "["):]), &argv); err != nil {
		t.Fatalf("%s %s: want the exec form, [\"program\", …]: %v", name, text, err)
	}
	return argv
}

func TestDockerfile(t *testing.T) {
	all := stages(t)
	for _, s := range all {
		words := strings.Fields(s["FROM"][0])
		image := words[slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "--") })]
		tagged(t, image)
		for _, text := range slices.Concat(s["ARG"], s["ENV"]) {
			if regexp.MustCompile(`(?i)KEY|SECRET|PASSWORD|TOKEN|DSN`).MatchString(text) {
				t.Errorf("%s: a secret would stay in the image's history", text)
			}
		}
		if len(s["ADD"]) > 0 {
			t.Error("ADD: want COPY")
		}
	}
	final := all[1]
	if user := final["USER"]; len(user) != 1 || !regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(user[0]) {
		t.Errorf("USER %v: want one number:number that is not root, which Kubernetes can check", user)
	}
	if len(final["RUN"]) > 0 {
		t.Error("RUN in an image that has no shell")
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if !strings.Contains(final["LABEL"][0], "org.opencontainers.image."+label+"=") {
			t.Errorf("no label org.opencontainers.image.%s", label)
		}
	}
}

// ignored reads .dockerignore, whose forms are *, !name and **/pattern.
func ignored(t *testing.T) func(path string) bool {
	t.Helper()
	text := read(t, filepath.Join(top, ".dockerignore"))
	return func(path string) (out bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			kept, keep := strings.CutPrefix(line, "!")
			below, anywhere := strings.CutPrefix(line, "**/")
			matches := func(name string) bool { ok, _ := filepath.Match(below, name); return ok }
			switch {
			case line == "*", anywhere && slices.ContainsFunc(strings.Split(path, "/"), matches):
				out = true
			case keep && (path == kept || strings.HasPrefix(path, kept+"/")):
				out = false
			}
		}
		return out
	}
}

// TestBuildContext: nothing private enters the build context, and everything that
// the build reads does.
func TestBuildContext(t *testing.T) {
	out := ignored(t)
	committed := []string{"internal/cli/script_test.go", "internal/cli/testdata/script/serve.txtar"}
	for _, path := range append(committed,
		".git/config", ".env", "state/docgauge.db", "data/x.parquet", "deploy/compose/secrets/api_key", "bin/docgauge",
	) {
		if !out(path) {
			t.Errorf("%s enters the build context", path)
		}
	}
	for _, path := range committed {
		if _, err := os.Stat(filepath.Join(top, path)); err != nil {
			t.Errorf("the list has a file that is not there: %v", err)
		}
	}
	list := exec.Command("go", "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}} {{end}}`+
			`{{range .EmbedFiles}}{{$d}}/{{.}} {{end}}{{end}}{{end}}`,
		"./cmd/docgauge")
	list.Dir = top
	files := strings.Fields(succeed(t, list))
	root, err := filepath.Abs(top)
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	for _, path := range append(files, root+"/go.mod", root+"/go.sum") {
		below, err := filepath.Rel(root, path)
		must(t, err)
		if out(filepath.ToSlash(below)) {
			t.Errorf("%s is not in the build context, and the build reads it", below)
		}
	}
}

// TestImage runs the commands of the build stage, lays the final stage out in a
// directory, and runs what it starts there: as its user, in a root file system
// without a loader or library, where only the volume can be written, against a sandbox.
func TestImage(t *testing.T) {
	t.Parallel()
	engines.Long(t)
	all := stages(t)
	root, out := t.TempDir(), t.TempDir()
	for _, command := range all[0]["RUN"][1:] {
		// Without -trimpath the compiled packages of the tests are used.
		build := exec.Command("sh", "-ec",
			strings.ReplaceAll(strings.ReplaceAll(command, "/out/", out+"/"), "-trimpath ", ""))
		build.Dir, build.Env = top, append(os.Environ(), "VERSION=v9.8.7", "COMMIT=0123456")
		succeed(t, build)
	}
	final := all[1]
	user, group, _ := strings.Cut(final["USER"][0], ":")
	for _, text := range final["COPY"] {
		flags, paths := []string{}, []string{}
		for _, word := range strings.Fields(text) {
			if strings.HasPrefix(word, "--") {
				flags = append(flags, word)
			} else {
				paths = append(paths, word)
			}
		}
		from, to := filepath.Join(out, strings.TrimPrefix(paths[0], "/out/")), filepath.Join(root, paths[1])
		if strings.HasSuffix(paths[0], "/") {
			from += "/."
		}
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		succeed(t, exec.Command("cp", "-R", "--preserve=mode", from, to))
		if slices.Contains(flags, "--chown="+user+":"+group) && os.Geteuid() == 0 {
			succeed(t, exec.Command("sh", "-ec", "chown -R "+user+":"+group+" "+to+"/*"))
		}
	}
	env := strings.Fields(strings.Join(final["ENV"], " "))
	for name, value := range engines.Sandbox(t, engines.Docgauge(t)) {
		env = append(env, name+"="+value)
	}
	env = append(env, "DOCGAUGE_LISTEN_ADDRESS=0.0.0.0:"+strconv.Itoa(engines.FreePort(t)),
		"DOCGAUGE_SINCE="+time.Now().AddDate(0, 0, -3).UTC().Format(time.DateOnly))
	volume := final.argv(t, "VOLUME")[0]
	tmp := filepath.Join(root, "tmp")
	must(t, os.Mkdir(tmp, 0o777))
	must(t, os.Chmod(tmp, 0o777|fs.ModeSticky))
	c := container{
		root: root, readOnly: true, env: env,
		mounts: []mount{{root + volume, volume, false}, {tmp, "/tmp", false}},
	}
	c.uid, _ = strconv.Atoi(user)
	c.gid, _ = strconv.Atoi(group)

	program := final.argv(t, "ENTRYPOINT")
	if text := succeed(t, c.command(t, append(program, "version")...)); !strings.Contains(text, "v9.8.7") {
		t.Errorf("the version is not the build's: %s", text)
	}
	serve := c.command(t, slices.Concat(program, final.argv(t, "CMD"), []string{"--once-at-start"})...)
	log := logFile(t)
	serve.Stderr = log
	must(t, serve.Start())
	healthcheck := final.argv(t, "HEALTHCHECK")
	await(t, func() *exec.Cmd { return c.command(t, healthcheck...) })
	await(t, func() *exec.Cmd { return c.command(t, append(healthcheck, "--ready")...) })
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("serve after SIGTERM: %v", err)
	}
	if out, err := c.command(t, healthcheck...).CombinedOutput(); err == nil {
		t.Errorf("healthcheck of a serve that has ended: %s", out)
	}
	succeed(t, c.command(t, append(program, "export")...))
	if n := parquetFiles(t, root+volume+"/data"); n < 3 {
		t.Errorf("%d Parquet files in the volume", n)
	}
	for _, dir := range []string{"", "state", "data"} {
		info, err := os.Stat(filepath.Join(root+volume, dir))
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("volume %s: %v, want 0700", dir, info.Mode())
		}
	}
}

func parquetFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			n++
		}
		return err
	})
	must(t, err)
	return n
}
