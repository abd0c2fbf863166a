package deploy

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// project is the part of the loaded compose.yaml that the tests look at.
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
	Volumes []struct {
		Type, Source, Target string
		ReadOnly             bool `json:"read_only"`
	}
	DependsOn map[string]struct{ Condition string } `json:"depends_on"`
	Build     *struct{ Context, Dockerfile string }
}

// load reads the compose.yaml of a directory, with the defaults of its variables.
func load(t *testing.T, dir string) (p project) {
	t.Helper()
	cmd := tool(t, "compose-spec", "-format", "json", filepath.Join(dir, "compose.yaml"))
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "level=warn") {
		t.Fatalf("compose-spec: %v: %s", err, stderr.String())
	}
	must(t, json.Unmarshal(out, &p))
	return p
}

// initialised is a copy of deploy/compose in which init.sh has run.
func initialised(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deploy", "compose")
	must(t, os.MkdirAll(dir, 0o700))
	for _, name := range []string{"compose.yaml", ".env.example", "init.sh"} {
		write(t, filepath.Join(dir, name), read(t, "compose/"+name), 0o600)
	}
	succeed(t, exec.Command("sh", filepath.Join(dir, "init.sh")))
	return dir
}

// TestCompose: services are confined. Everything that they refer to is in the file, in the
// repository or made by init.sh, and is not left out by another profile.
func TestCompose(t *testing.T) {
	dir := initialised(t)
	p := load(t, dir)
	if len(p.Services) != 10 {
		t.Errorf("%d services, want 10", len(p.Services))
	}
	inRepository := func(service, path string) {
		t.Helper()
		below, err := filepath.Rel(filepath.Dir(filepath.Dir(dir)), path)
		if err == nil {
			_, err = os.Stat(filepath.Join(top, below))
		}
		if err != nil {
			t.Errorf("%s: %v", service, err)
		}
	}
	for _, name := range []string{"DOCGAUGE_SITE_HOSTS", "DOCGAUGE_SITE_EXCLUDE", "DOCGAUGE_SITE_HUMANS"} {
		if p.Services["site"].Environment[name] == nil {
			t.Errorf("site: %s cannot be set", name)
		}
	}
	// The image has its own health check, and the sandbox is not serve.
	unchecked := []string{"docgauge", "docgauge-sandbox", "docgauge-site"}
	for name, s := range p.Services {
		tagged(t, s.Image)
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may gain privileges", name)
		}
		// ClickHouse needs its capabilities: see the comment in the file.
		if name != "clickhouse" && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
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
		for _, v := range s.Volumes {
			if v.Target == "/logs" { // of this machine, wherever they are
				if !v.ReadOnly {
					t.Errorf("%s can write to the logs", name)
				}
			} else if v.Type == "bind" {
				inRepository(name, v.Source)
			} else if _, ok := p.Volumes[v.Source]; !ok {
				t.Errorf("%s: no volume %s", name, v.Source)
			}
		}
		if s.Build != nil {
			inRepository(name, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		}
		for _, secret := range s.Secrets {
			// The user writes the API key.
			if _, err := os.Stat(p.Secrets[secret.Source].File); err != nil && secret.Source != "api_key" {
				t.Errorf("%s: secret %s: %v", name, secret.Source, err)
			}
		}
		needs := maps.Clone(s.DependsOn)
		if other, shared := strings.CutPrefix(s.NetworkMode, "service:"); shared {
			needs[other] = struct{ Condition string }{}
		}
		for other, need := range needs {
			o, ok := p.Services[other]
			if !ok || len(o.Profiles) > 0 && !slices.Equal(o.Profiles, s.Profiles) {
				t.Errorf("%s needs %s, which does not exist or has another profile", name, other)
			}
			if need.Condition == "service_healthy" && o.Healthcheck == nil {
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			}
		}
	}
	testGrafana(t, p.Services["grafana"])
	// A site of one's own has every report, and its pipeline exports them, here and on Kubernetes.
	all := strings.Join(config.ReportNames(), ",")
	if got := p.Services["docgauge-site"].Environment["DOCGAUGE_REPORTS"]; got == nil || *got != all {
		t.Errorf("docgauge-site does not export %s", all)
	}
	for _, b := range blocksOf(t, "../docs/kubernetes.md") {
		if b.mark == "values: site.yaml" && !strings.Contains(b.text, `DOCGAUGE_REPORTS: "`+all+`"`) {
			t.Errorf("docs/kubernetes.md: the site does not export %s", all)
		}
	}
}

// tagged: an image has a tag, which is not latest.
func tagged(t *testing.T, image string) {
	t.Helper()
	if _, tag, _ := strings.Cut(image, ":"); tag == "" || tag == "latest" {
		t.Errorf("image %s: want a tag other than latest", image)
	}
}

// TestInit: the second run changes nothing, secrets are random, and others on this
// machine and git do not get them.
func TestInit(t *testing.T) {
	dir := initialised(t)
	before := contents(t, dir)
	succeed(t, exec.Command("sh", filepath.Join(dir, "init.sh")))
	if after := contents(t, dir); !maps.Equal(before, after) || len(before) != 10 {
		t.Errorf("%d files; the second run of init.sh changed something: %v", len(before), !maps.Equal(before, after))
	}
	info, err := os.Stat(filepath.Join(dir, "secrets"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("secrets: %v, %v, want 0700", info, err)
	}
	other := contents(t, initialised(t))
	for _, secret := range []string{"clickhouse_dsn", "postgres_dsn", "postgres_grafana_password",
		"grafana_admin_password"} {
		name := "secrets/" + secret
		if before[name] == other[name] || before[name] == "" {
			t.Errorf("%s is not random", name)
		}
	}
	if !strings.Contains("\n"+read(t, "compose/.gitignore"), "\n/secrets/\n") {
		t.Error("git does not ignore the secrets")
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"*.*", ".env*", "secrets/*"} {
		for _, path := range glob(t, filepath.Join(dir, pattern)) {
			name, err := filepath.Rel(dir, path)
			must(t, err)
			files[name] = read(t, path)
		}
	}
	return files
}

// TestComposeVariables: .env.example has the variables of compose.yaml, with their defaults.
func TestComposeVariables(t *testing.T) {
	find := func(pattern, file string) map[string]string {
		found := map[string]string{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1) {
			found[m[1]] = m[2]
		}
		return found
	}
	used := find(`\$\{([A-Z_]+):-([^}]*)\}`, "compose/compose.yaml")
	offered := find(`(?m)^([A-Z_]+)=(.*)$`, "compose/.env.example")
	if !maps.Equal(used, offered) {
		t.Errorf("compose.yaml has %v, .env.example %v", used, offered)
	}
}

// testGrafana: Grafana has the dashboards where they are mounted, and every datasource that
// they query.
func testGrafana(t *testing.T, grafana service) {
	var sources struct{ Datasources []struct{ Type string } }
	decode(t, "compose/grafana/datasources/docgauge.yaml", &sources)
	var folders struct {
		Providers []struct{ Options struct{ Path string } }
	}
	decode(t, "compose/grafana/dashboards/docgauge.yaml", &folders)
	folder := folders.Providers[0].Options.Path
	mounted := false
	for _, v := range grafana.Volumes {
		mounted = mounted || v.Target == folder && strings.HasSuffix(v.Source, "dashboards/json")
	}
	if !mounted {
		t.Errorf("%s is not dashboards/json", folder)
	}
	for _, file := range glob(t, "../dashboards/json/*.json") {
		for _, m := range regexp.MustCompile(`"type": "(prometheus|[a-z-]+-datasource)"`).
			FindAllStringSubmatch(read(t, file), -1) {
			if !slices.Contains(sources.Datasources, struct{ Type string }{m[1]}) {
				t.Errorf("%s queries a %s, which is not provisioned", file, m[1])
			}
		}
	}
}

// TestComposePostgres: Grafana's user can read what others made, and nothing else.
func TestComposePostgres(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed: apt-get install postgresql-client")
	}
	server := engines.RunPostgres(t, "15")
	host, port, _ := strings.Cut(server.Addr(), ":")
	psql := func(user, password string, argv ...string) *exec.Cmd {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "PGHOST="+host, "PGPORT="+port, "PGUSER="+user, "PGDATABASE=postgres",
			"PGPASSWORD="+password, "POSTGRES_USER="+user)
		return cmd
	}
	secrets := filepath.Join(initialised(t), "secrets")
	script := strings.ReplaceAll(read(t, "compose/postgres-grafana.sh"), "/run/secrets", secrets)
	succeed(t, psql("postgres", server.Password, "sh", "-c", script))
	succeed(t, psql("postgres", server.Password, "psql", "-c", "CREATE TABLE docgauge_totals AS SELECT 1 AS total"))
	password := read(t, filepath.Join(secrets, "postgres_grafana_password"))
	succeed(t, psql("grafana", password, "psql", "-c", "SELECT total FROM docgauge_totals"))
	for _, sql := range []string{
		"DELETE FROM docgauge_totals", "SET default_transaction_read_only = off; DROP TABLE docgauge_totals",
	} {
		if out, err := psql("grafana", password, "psql", "-v", "ON_ERROR_STOP=1", "-c", sql).CombinedOutput(); err == nil {
			t.Errorf("%s: %s", sql, out)
		}
	}
}

// TestComposeRun runs docgauge with the environments of both profiles, against a
// ClickHouse with the users that are mounted.
func TestComposeRun(t *testing.T) {
	t.Parallel()
	engines.Long(t)
	dir := initialised(t)
	p := load(t, dir)
	grafana := strings.ReplaceAll(users(t, "compose/clickhouse-grafana.xml"), "<host>grafana</host>",
		"<ip>127.0.0.1</ip>")
	clickhouse := engines.RunClickHouse(t, engines.WithUsers(grafana),
		engines.WithUsers(users(t, filepath.Join(dir, "secrets", "clickhouse_users.xml"))))
	secrets := t.TempDir()
	dsn := strings.Replace(read(t, filepath.Join(dir, "secrets", "clickhouse_dsn")), "clickhouse:9000",
		clickhouse.Addr(), 1)
	write(t, filepath.Join(secrets, "clickhouse_dsn"), dsn, 0o600)
	write(t, filepath.Join(secrets, "postgres_dsn"), read(t, filepath.Join(dir, "secrets", "postgres_dsn")), 0o600)
	write(t, filepath.Join(secrets, "api_key"), "adm_of-the-test\n", 0o600)

	t.Run("real", func(t *testing.T) {
		run := runner(t, append(p.Services["docgauge"].host(t, secrets, "compose/prompts"),
			"DOCGAUGE_BASE_URL=https://api.example.com", "DOCGAUGE_PROJECTS=prj_a"))
		run("plan")
		run("jobs", "lint")
	})
	t.Run("sandbox", func(t *testing.T) {
		args := slices.Clone(p.Services["sandbox"].Command)
		for i := range args {
			args[i] = strings.Replace(args[i], "0.0.0.0:8787", "127.0.0.1:0", 1)
		}
		printed := engines.Sandbox(t, engines.Docgauge(t), args...)
		run := runner(t, append(p.Services["docgauge-sandbox"].host(t, secrets, "compose/sandbox-prompts"),
			"DOCGAUGE_BASE_URL="+printed["DOCGAUGE_BASE_URL"], "DOCGAUGE_GITHUB_URL="+printed["DOCGAUGE_GITHUB_URL"],
			"DOCGAUGE_POLL_INTERVAL=1s",
			"DOCGAUGE_SINCE="+time.Now().UTC().AddDate(0, 0, -3).Format(time.DateOnly)))
		run("check")
		run("export")
		run("jobs", "run", "--wait")
		if out := run("jobs", "list"); strings.Count(out, "completed") != 2 {
			t.Errorf("want two completed jobs:\n%s", out)
		}
	})
	t.Run("site", func(t *testing.T) {
		logs := t.TempDir()
		write(t, filepath.Join(logs, "access.log"), `192.0.2.1 - - [01/Oct/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 5 `+
			`"-" "Mozilla/5.0 Firefox/120.0"`+"\n", 0o600)
		env := p.Services["site"].host(t, secrets, "compose/prompts")
		paths := strings.NewReplacer("=/logs/", "="+logs+"/",
			"=/var/lib/docgauge/site", "="+filepath.Join(t.TempDir(), "site"))
		for i := range env {
			env[i] = paths.Replace(env[i])
		}
		run := runner(t, append(env, "DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SITE_METRICS_ADDRESS=127.0.0.1:0"))
		key := regexp.MustCompile(`dgs_[\w-]+`).FindString(run("site", "keys", "add"))
		write(t, filepath.Join(secrets, "api_key"), key, 0o600)
		run("site", "check")
		runner(t, p.Services["docgauge-site"].host(t, secrets, "compose/prompts"))("plan")
	})
	// Grafana's user reads the views and changes nothing.
	ask := func(sql string) (string, error) {
		out, err := exec.Command("clickhouse-client", "--host=127.0.0.1",
			"--port="+strings.TrimPrefix(clickhouse.Addr(), "127.0.0.1:"),
			"--user=grafana", "--max_execution_time=30", "--query="+sql).CombinedOutput()
		return string(out), err
	}
	if out, err := ask("SELECT count() > 0 FROM docgauge_visitors"); err != nil || out != "1\n" {
		t.Errorf("SELECT: %v: %s", err, out)
	}
	for _, sql := range []string{"DROP TABLE docgauge_windows",
		"INSERT INTO docgauge_windows SELECT * FROM docgauge_windows"} {
		if out, err := ask(sql); err == nil || !strings.Contains(strings.ToLower(out), "readonly") {
			t.Errorf("%s: %v: %s", sql, err, out)
		}
	}
}

// users are the elements of a file for ClickHouse's users.d.
func users(t *testing.T, file string) string {
	t.Helper()
	inner := regexp.MustCompile(`(?s)<clickhouse>(.*)</clickhouse>`).FindStringSubmatch(read(t, file))
	if inner == nil {
		t.Fatalf("%s: no element <clickhouse>", file)
	}
	return inner[1]
}

// host is the environment of a service with the paths of this machine. The
// settings of the image come first.
func (s service) host(t *testing.T, secrets, prompts string) []string {
	t.Helper()
	volume := t.TempDir()
	prompts, err := filepath.Abs(prompts)
	must(t, err)
	env := []string{
		"PATH=" + os.Getenv("PATH"), "DOCGAUGE_LISTEN_ADDRESS=0.0.0.0:9817",
		"DOCGAUGE_STATE_DIR=" + filepath.Join(volume, "state"), "DOCGAUGE_PARQUET_URL=" + filepath.Join(volume, "data"),
	}
	paths := strings.NewReplacer("/run/secrets/", secrets+"/", "/etc/docgauge/prompts", prompts)
	for name, value := range s.Environment {
		if value != nil {
			env = append(env, name+"="+paths.Replace(*value))
		}
	}
	return env
}

func runner(t *testing.T, env []string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), engines.Docgauge(t), args...)
		cmd.Env = env
		return succeed(t, cmd)
	}
}
