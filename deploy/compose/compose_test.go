package compose

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// project is what the loader makes of compose.yaml, as far as it is looked at.
type project struct {
	Services map[string]service
	Secrets  map[string]struct{ File string }
	Volumes  map[string]any
}

type service struct {
	Image       string
	Command     []string
	Environment map[string]*string
	Profiles    []string
	ReadOnly    bool     `json:"read_only"`
	CapDrop     []string `json:"cap_drop"`
	SecurityOpt []string `json:"security_opt"`
	NetworkMode string   `json:"network_mode"`
	Secrets     []struct{ Source, Target string }
	Healthcheck *struct{ Disable bool }
	Ports       []struct {
		HostIP    string `json:"host_ip"`
		Published string
	}
	Volumes   []struct{ Type, Source, Target string }
	DependsOn map[string]struct{ Condition string } `json:"depends_on"`
	Build     *struct{ Context, Dockerfile string }
}

// load reads compose.yaml of a directory, with the defaults of its variables: the
// program that loads it has no others.
func load(t *testing.T, dir string) (p project) {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), "compose-spec", "-format", "json", filepath.Join(dir, "compose.yaml"))
	engines.Need(t, err)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("compose-spec: %v: %s", err, said.String())
	}
	if strings.Contains(said.String(), "level=warn") {
		t.Errorf("the loader warns: %s", said.String())
	}
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// initialised is a copy of this directory, where a checkout would have it, in
// which init.sh has run.
func initialised(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "deploy", "compose")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"compose.yaml", ".env.example", "init.sh"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	initialise(t, dir)
	return dir
}

func initialise(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("sh", filepath.Join(dir, "init.sh")).CombinedOutput(); err != nil {
		t.Fatalf("init.sh: %v: %s", err, out)
	}
}

func TestServices(t *testing.T) {
	p := load(t, initialised(t))
	if got := slices.Sorted(maps.Keys(p.Services)); len(got) != 7 {
		t.Errorf("services %v, want 7", got)
	}
	// It needs its capabilities: see the comment in the file.
	soft := []string{"clickhouse"}
	// The image has a health check of its own, and the sandbox is not serve.
	unchecked := []string{"docgauge", "docgauge-sandbox"}
	for name, s := range p.Services {
		if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
			t.Errorf("%s: image %s: want a tag other than latest", name, s.Image)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: may gain privileges", name)
		}
		if !slices.Contains(soft, name) && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
			t.Errorf("%s: read_only %v, cap_drop %v", name, s.ReadOnly, s.CapDrop)
		}
		if s.Healthcheck == nil && !slices.Contains(unchecked, name) {
			t.Errorf("%s: no health check", name)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to the network", name, port.Published)
			}
		}
	}
}

// TestReferences: what is mounted is in the repository, or made by init.sh.
func TestReferences(t *testing.T) {
	dir := initialised(t)
	p := load(t, dir)
	top := filepath.Dir(filepath.Dir(dir))
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			below, err := filepath.Rel(top, v.Source)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join("../..", below)); err != nil {
				t.Errorf("%s: %s: %v", name, v.Target, err)
			}
		}
		if s.Build != nil {
			below, err := filepath.Rel(top, s.Build.Context)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join("../..", below, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: build: %v", name, err)
			}
		}
		for _, secret := range s.Secrets {
			if _, err := os.Stat(p.Secrets[secret.Source].File); err != nil && secret.Source != "api_key" {
				t.Errorf("%s: secret %s: %v", name, secret.Source, err)
			}
		}
	}
}

// TestNames: what a service names is in the file, and depends on nothing that
// another profile leaves out.
func TestNames(t *testing.T) {
	p := load(t, initialised(t))
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if _, ok := p.Volumes[v.Source]; v.Type == "volume" && !ok {
				t.Errorf("%s: no volume %s", name, v.Source)
			}
		}
		for _, secret := range s.Secrets {
			if _, ok := p.Secrets[secret.Source]; !ok {
				t.Errorf("%s: no secret %s", name, secret.Source)
			}
		}
		needs := maps.Clone(s.DependsOn)
		if other, shared := strings.CutPrefix(s.NetworkMode, "service:"); shared {
			needs[other] = struct{ Condition string }{}
		}
		for other, need := range needs {
			o, ok := p.Services[other]
			if !ok || len(o.Profiles) > 0 && !slices.Equal(o.Profiles, s.Profiles) {
				t.Errorf("%s needs %s, which is not there or of another profile", name, other)
			}
			if need.Condition == "service_healthy" && o.Healthcheck == nil {
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			}
		}
	}
}

// TestInit: doing it twice changes nothing, and others on this machine cannot
// read the secrets.
func TestInit(t *testing.T) {
	dir := initialised(t)
	before := contents(t, dir)
	initialise(t, dir)
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("init.sh changed something the second time")
	}
	if len(before) != 7 {
		t.Errorf("%d files, want 7", len(before))
	}
	info, err := os.Stat(filepath.Join(dir, "secrets"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("secrets: %v, %v, want 0700", info.Mode(), err)
	}
	other := contents(t, initialised(t))
	for _, name := range []string{"secrets/clickhouse_dsn", "secrets/grafana_admin_password"} {
		if before[name] == other[name] || before[name] == "" {
			t.Errorf("%s is not random", name)
		}
		if !ignoredByGit(t, name) {
			t.Errorf("%s is not ignored by git", name)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func ignoredByGit(t *testing.T, name string) bool {
	t.Helper()
	text, err := os.ReadFile(".gitignore")
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(name, "/")
	return regexp.MustCompile(`(?m)^/` + regexp.QuoteMeta(top) + `/?$`).Match(text)
}

// TestVariables: .env.example has the variables of compose.yaml, with their
// defaults.
func TestVariables(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]string{}
	for _, found := range regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`).FindAllStringSubmatch(string(text), -1) {
		used[found[1]] = found[2]
	}
	if text, err = os.ReadFile(".env.example"); err != nil {
		t.Fatal(err)
	}
	offered := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		offered[found[1]] = found[2]
	}
	if !maps.Equal(used, offered) {
		t.Errorf("compose.yaml has %v, .env.example %v", used, offered)
	}
}

// TestGrafana: what is provisioned is what the dashboards ask, from where it is
// mounted.
func TestGrafana(t *testing.T) {
	var sources struct {
		Datasources []struct {
			Type, URL string
			IsDefault bool           `yaml:"isDefault"`
			JSONData  map[string]any `yaml:"jsonData"`
		}
	}
	decode(t, "grafana/datasources/docgauge.yaml", &sources)
	var folders struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	decode(t, "grafana/dashboards/docgauge.yaml", &folders)
	p := load(t, initialised(t))
	mounted := slices.ContainsFunc(p.Services["grafana"].Volumes, func(v struct{ Type, Source, Target string }) bool {
		return v.Target == folders.Providers[0].Options.Path && strings.HasSuffix(v.Source, "dashboards/json")
	})
	if !mounted {
		t.Errorf("%s is not dashboards/json", folders.Providers[0].Options.Path)
	}
	asked := map[string]bool{}
	for _, one := range sources.Datasources {
		asked[one.Type] = true
	}
	files, err := filepath.Glob("../../dashboards/json/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`"type": "(prometheus|[a-z-]+-datasource)"`).FindAllSubmatch(text, -1) {
			if !asked[string(found[1])] {
				t.Errorf("%s asks a %s, which is not provisioned", file, found[1])
			}
		}
	}
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestDockerCompose asks docker compose too, where it is.
func TestDockerCompose(t *testing.T) {
	if exec.Command("docker", "compose", "version").Run() != nil {
		t.Skip("docker compose is not installed")
	}
	dir := initialised(t)
	for _, profile := range []string{"sandbox", "real"} {
		cmd := exec.Command("docker", "compose", "--profile", profile, "config", "--quiet")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("docker compose --profile %s config: %v: %s", profile, err, out)
		}
	}
}
