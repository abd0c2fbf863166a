package systemd

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var (
	block = regexp.MustCompile("(?ms)^<!-- (executed|not executed): ([^\n]+) -->\n```([a-z]+)\n(.*?)^```$")
	fence = regexp.MustCompile("(?m)^```[a-z]+$")
	cron  = regexp.MustCompile(`(?m)^[0-9*/]+ \S+ \S+ \S+ \S+  (.*)$`)
)

// testDocumentation runs what the pages on cron and the daemon say it does, on a
// machine in a directory, against a sandbox.
func testDocumentation(t *testing.T, root string) {
	m := newMachine(t, root)
	for _, page := range []string{"../../docs/cron.md", "../../docs/sidecar.md"} {
		text := read(t, page)
		blocks := block.FindAllStringSubmatch(text, -1)
		if n := len(fence.FindAllString(text, -1)); n != len(blocks) || n == 0 {
			t.Errorf("%s: %d blocks, and %d with a comment that says who executes them", page, n, len(blocks))
		}
		for _, b := range blocks {
			if executed, by, kind, body := b[1], b[2], b[3], b[4]; executed == "executed" && strings.HasPrefix(by, "TestInstalled") {
				m.run(kind, body)
			}
		}
	}
	m.left(
		"var/lib/docgauge/data/totals/v1/p=prj_sandbox", "var/lib/docgauge/export.log",
		"var/lib/docgauge/jobs.log", "var/lib/prometheus/node-exporter/docgauge.prom",
	)
}

// machine is a root directory, and a service and a Pushgateway for it.
type machine struct {
	*testing.T
	root  string
	names *strings.Replacer
	env   []string
}

func newMachine(t *testing.T, root string) machine {
	t.Helper()
	gateway := engines.RunPushgateway(t)
	url := sandbox(t, filepath.Join(root, "usr/local/bin/docgauge"))
	for _, dir := range []string{"var/lib/prometheus/node-exporter", "etc/docgauge/prompts"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return machine{
		T: t, root: root,
		names: strings.NewReplacer("/etc/", root+"/etc/", "/var/lib/", root+"/var/lib/", "https://api.example.com", url,
			"prj_a", "prj_sandbox", "http://pushgateway:9091", gateway.URL, "sudo -u docgauge ", ""),
		env: []string{
			"PATH=" + filepath.Join(root, "usr/local/bin") + ":" + os.Getenv("PATH"), "HOME=" + root,
			"KEY=sbx_local-trial-key", "DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:" + strconv.Itoa(engines.FreePort(t)),
		},
	}
}

// run executes a block in the directory and with the configuration that the
// first of them make; the line of a crontab without either, as cron does.
func (m machine) run(kind, body string) {
	m.Helper()
	script := `if [ -d /var/lib/docgauge ]; then set -a; . /etc/docgauge/docgauge.env; set +a; cd /var/lib/docgauge; fi` + "\n" + body
	if kind == "cron" {
		script = cron.FindStringSubmatch(body)[1]
	}
	cmd := exec.CommandContext(m.Context(), "sh", "-ec", m.names.Replace(script))
	cmd.Dir, cmd.Env = m.root, m.env
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Errorf("%v\n%s\n%s", err, body, out)
	}
}

// left: the commands have done something.
func (m machine) left(paths ...string) {
	m.Helper()
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(m.root, path)); err != nil {
			m.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(m.root, "etc/docgauge/api_key"))
	if err != nil {
		m.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		m.Errorf("the key has mode %v, want 0600", info.Mode())
	}
}

// sandbox runs the service and returns its URL.
func sandbox(t *testing.T, binary string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "sandbox", "--listen=127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	var text bytes.Buffer
	for !strings.Contains(text.String(), "\n") {
		if _, err := io.CopyN(&text, out, 1); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	_, url, _ := strings.Cut(strings.TrimSpace(text.String()), "=")
	return url
}
