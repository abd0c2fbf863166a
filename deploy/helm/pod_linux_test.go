package helm

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// build copies the static program to where the kubelet can link it from.
func build(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount and to become another user")
	}
	program, err := os.ReadFile(engines.Docgauge(t))
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "docgauge")
	if err := os.WriteFile(binary, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return binary
}

// sandbox starts the local service and returns values for the chart.
func sandbox(t *testing.T, binary string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "sandbox", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.SysProcAttr = t.TempDir(), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := map[string]string{}
	for lines := bufio.NewScanner(out); len(said) < 3 && lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		said[name] = value
	}
	return []string{
		"--set-string", "baseURL=" + said["DOCGAUGE_BASE_URL"], "--set", "projects={" + said["DOCGAUGE_PROJECTS"] + "}",
		"--set-string", "secrets.apiKey=" + said["DOCGAUGE_API_KEY"], "--set-string", "settings.DOCGAUGE_BUDGET=0",
		"--set-string", `prompts.files.a\.md=Fix all typos. [sandbox:pr]`, "--set", "prompts.onNewState=submit",
	}
}

// TestPods runs what the chart renders, with the program that the tree has.
func TestPods(t *testing.T) {
	// That of images and kubelets: what is made can be read by other users.
	defer syscall.Umask(syscall.Umask(0o022))
	binary := build(t)
	for name, test := range map[string]func(*testing.T, string){"CronJob": podOfCronJob, "Deployment": podOfDeployment, "subPath": podOnSubPath} {
		t.Run(name, func(t *testing.T) { test(t, binary) })
	}
}

// podOfCronJob runs both containers of a rendered CronJob at once, as the
// user and with the volumes they get, and again after the kubelet has changed
// every mode in the volume.
func podOfCronJob(t *testing.T, binary string) {
	t.Helper()
	k := start(t, manifests(t, "deployment", append(sandbox(t, binary), "--set", "mode=cronjob")...), binary)
	var both sync.WaitGroup
	both.Go(func() { k.run(t, "docgauge") })
	both.Go(func() { k.run(t, "jobs") })
	both.Wait()
	k.private(t)
	if n := k.parquetFiles(t); n < 30 {
		t.Errorf("%d Parquet files", n)
	}
	if out := k.run(t, "jobs", "/docgauge", "jobs", "list"); !strings.Contains(out, "job_") {
		t.Errorf("no job was created:\n%s", out)
	}
	k.regroup(t, k.volumes["data"])
	if out := k.run(t, "docgauge"); !strings.Contains(out, "success") {
		t.Errorf("the second run:\n%s", out)
	}
	k.private(t)
}

// podOnSubPath: a directory that the kubelet made belongs to root, so the chart
// lets docgauge make its own.
func podOnSubPath(t *testing.T, binary string) {
	t.Helper()
	k := start(t, manifests(t, "deployment", "--set", "mode=cronjob"), binary)
	made := k.volumes["data"] + "/state"
	if err := os.Mkdir(made, 0o770); err != nil {
		t.Fatal(err)
	}
	k.own(t, made, 0o700)
	out, err := k.container(t, "docgauge").command(t).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is open to other users and its mode cannot be set to 0700") {
		t.Errorf("%v\n%s", err, out)
	}
}

// private: the state belongs to the program alone.
func (k *kubelet) private(t *testing.T) {
	t.Helper()
	info, err := os.Stat(k.volumes["data"] + "/state")
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; info.Mode().Perm() != 0o700 || owner == 0 {
		t.Errorf("the state directory has mode %v and belongs to %d", info.Mode(), owner)
	}
}

func (k *kubelet) parquetFiles(t *testing.T) (n int) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(k.volumes["data"]), "data", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// podOfDeployment runs the rendered daemon and its probes: it starts, becomes
// ready, is scraped, and ends within the time it is given.
func podOfDeployment(t *testing.T, binary string) {
	t.Helper()
	port := strconv.Itoa(engines.FreePort(t))
	k := start(t, manifests(t, "deployment", append(sandbox(t, binary), "--set", "metrics.port="+port)...), binary)
	c := k.container(t, "docgauge")
	cmd := c.command(t)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	k.probe(t, "startupProbe", ended)
	k.probe(t, "readinessProbe", ended)
	k.probe(t, "livenessProbe", ended)
	waitFor(t, "windows in the metrics", func() bool {
		return strings.Contains(get(t, "http://127.0.0.1:"+port+"/metrics"), `docgauge_site_visitors_deduplicated{project="prj_sandbox",window="day"}`)
	})
	k.private(t)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	grace, _ := k.pod.at("spec", "terminationGracePeriodSeconds").(int)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v\n%s", err, said.String())
		}
	case <-time.After(time.Duration(grace) * time.Second):
		t.Errorf("it goes on %d s after SIGTERM", grace)
	}
}

// probe runs a probe's command in the container until it says yes.
func (k *kubelet) probe(t *testing.T, name string, ended <-chan error) {
	t.Helper()
	argv := words(k.pod.list("spec", "containers")[0].at(name, "exec", "command"))
	waitFor(t, name, func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the daemon ended: %v", err)
		default:
		}
		return k.container(t, "docgauge", argv...).command(t).Run() == nil
	})
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
