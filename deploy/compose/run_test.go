package compose

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestRun runs docgauge with the environments of both profiles, against a
// ClickHouse with the users that are mounted.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds docgauge")
	}
	dir := initialised(t)
	p := load(t, dir)
	clickhouse := engines.RunClickHouse(t, engines.WithUsers(users(t, filepath.Join(dir, "secrets", "clickhouse_users.xml"))),
		engines.WithUsers(strings.ReplaceAll(users(t, "clickhouse-grafana.xml"), "<host>grafana</host>", "<ip>127.0.0.1</ip>")))
	binary := engines.Docgauge(t)
	secrets := secretsFor(t, dir, clickhouse.Addr())
	t.Run("real", func(t *testing.T) {
		h := host{t, binary, append(p.Services["docgauge"].host(t, secrets, "prompts"), "DOCGAUGE_BASE_URL=https://api.example.com", "DOCGAUGE_PROJECTS=prj_a")}
		h.docgauge("plan")
		h.docgauge("jobs", "lint")
	})
	t.Run("sandbox", func(t *testing.T) {
		s := p.Services["docgauge-sandbox"]
		h := host{t, binary, s.host(t, secrets, "sandbox-prompts")}
		url := h.sandbox(p.Services["sandbox"].Command)
		h.env = append(h.env, "DOCGAUGE_BASE_URL="+url, "DOCGAUGE_SINCE="+time.Now().UTC().AddDate(0, 0, -3).Format(time.DateOnly), "DOCGAUGE_POLL_INTERVAL=1s")
		h.docgauge("check")
		h.docgauge("export")
		h.docgauge("jobs", "run", "--wait")
		if out := h.docgauge("jobs", "list"); strings.Count(out, "completed") != 2 {
			t.Errorf("want two completed jobs:\n%s", out)
		}
	})
	t.Run("grafana", func(t *testing.T) { grafana(t, clickhouse) })
}

// users are the elements of a file for users.d.
func users(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inner := regexp.MustCompile(`(?s)<clickhouse>(.*)</clickhouse>`).FindSubmatch(text)
	if inner == nil {
		t.Fatalf("%s: no element <clickhouse>", file)
	}
	return string(inner[1])
}

// secretsFor makes the secrets a service would find, with ClickHouse at addr.
func secretsFor(t *testing.T, dir, addr string) string {
	t.Helper()
	dsn, err := os.ReadFile(filepath.Join(dir, "secrets", "clickhouse_dsn"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := t.TempDir()
	for name, text := range map[string]string{
		"clickhouse_dsn": strings.Replace(string(dsn), "clickhouse:9000", addr, 1),
		"api_key":        "adm_of-the-test\n",
	} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return secrets
}

// host is the environment of a service with the paths of this machine. What the
// image sets comes first.
func (s service) host(t *testing.T, secrets, prompts string) []string {
	t.Helper()
	volume := t.TempDir()
	prompts, err := filepath.Abs(prompts)
	if err != nil {
		t.Fatal(err)
	}
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

// host runs docgauge as a service would.
type host struct {
	*testing.T
	binary string
	env    []string
}

func (h host) docgauge(args ...string) string {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), h.binary, args...)
	cmd.Env = h.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("docgauge %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// sandbox starts what the service sandbox does, on a free port, and returns its URL.
func (h host) sandbox(args []string) string {
	h.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, h.binary, args...)
	for i := range cmd.Args {
		cmd.Args[i] = strings.Replace(cmd.Args[i], "0.0.0.0:8787", "127.0.0.1:0", 1)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { stop(); _ = cmd.Wait() })
	var text bytes.Buffer
	for !strings.Contains(text.String(), "\n") {
		if _, err := io.CopyN(&text, out, 1); err != nil {
			h.Fatal(err)
		}
	}
	_, url, _ := strings.Cut(strings.TrimSpace(text.String()), "=")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return url
}

// grafana: its user reads the views and changes nothing.
func grafana(t *testing.T, server *engines.ClickHouse) {
	ask := func(sql string) (string, error) {
		cmd := exec.Command("clickhouse-client", "--host=127.0.0.1", "--port="+strings.TrimPrefix(server.Addr(), "127.0.0.1:"),
			"--user=grafana", "--max_execution_time=30", "--query="+sql)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := ask("SELECT count() > 0 FROM docgauge_visitors"); err != nil || out != "1\n" {
		t.Errorf("SELECT: %v: %s", err, out)
	}
	for _, sql := range []string{"DROP TABLE docgauge_windows", "INSERT INTO docgauge_windows SELECT * FROM docgauge_windows"} {
		if out, err := ask(sql); err == nil || !strings.Contains(strings.ToLower(out), "readonly") {
			t.Errorf("%s: %v: %s", sql, err, out)
		}
	}
}
