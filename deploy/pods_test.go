package deploy

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// runningPod is a rendered pod with its volumes on this machine.
type runningPod struct {
	spec    object
	root    string            // of the image
	volumes map[string]string // directories by name
	group   string            // fsGroup
}

// newPod makes what the rendered pod needs. Volumes have the owners and modes that a
// kubelet gives them with fsGroup: root owns them, and the group may do the same.
func newPod(t *testing.T, all []object) *runningPod {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount and to become another user")
	}
	p := &runningPod{spec: podOf(t, all).sub("spec"), root: t.TempDir(), volumes: map[string]string{}}
	group, _ := p.spec.at("securityContext", "fsGroup").(int)
	p.group = strconv.Itoa(group)
	succeed(t, exec.Command("cp", engines.Docgauge(t), p.root+"/docgauge"))
	succeed(t, exec.Command("chmod", "-R", "go+rX", p.root))
	for _, v := range p.spec.list("volumes") {
		dir := t.TempDir()
		p.volumes[v.text("name")] = dir
		for _, o := range all {
			switch o.id() {
			case "Secret/" + v.text("secret", "secretName"):
				mode, _ := v.at("secret", "defaultMode").(int)
				for _, item := range v.list("secret", "items") {
					write(t, filepath.Join(dir, item.text("path")), o.text("stringData", item.text("key")),
						os.FileMode(mode))
				}
			case "ConfigMap/" + v.text("configMap", "name"):
				for name := range o.sub("data") {
					write(t, filepath.Join(dir, name), o.text("data", name), 0o644)
				}
			}
		}
		p.regroup(t, dir)
	}
	for _, c := range p.spec.list("containers") {
		for _, m := range c.list("volumeMounts") {
			succeed(t, exec.Command("mkdir", "-p", "-m", "755", p.root+m.text("mountPath")))
		}
	}
	return p
}

// regroup gives a volume to the group, as a kubelet does at the start of a pod.
func (p *runningPod) regroup(t *testing.T, dir string) {
	t.Helper()
	const script = `chgrp -R "$1" "$2"; chmod -R g+rX "$2"
		find "$2" -type d -exec chmod g+ws {} +; find "$2" -user "$1" -exec chmod g+w {} +`
	succeed(t, exec.Command("sh", "-ec", script, "sh", p.group, dir))
}

// command is a container of the pod, or with argv another command in it.
func (p *runningPod) command(t *testing.T, name string, argv ...string) *exec.Cmd {
	t.Helper()
	all := p.spec.list("containers")
	i := slices.IndexFunc(all, func(c object) bool { return c.text("name") == name })
	if i < 0 {
		t.Fatalf("no container %s", name)
	}
	c := container{root: p.root, groups: p.group, readOnly: all[i].at("securityContext",
		"readOnlyRootFilesystem") == true}
	c.uid, _ = p.spec.at("securityContext", "runAsUser").(int)
	c.gid, _ = p.spec.at("securityContext", "runAsGroup").(int)
	if c.uid == 0 || c.gid == 0 {
		t.Fatalf("container %s runs as root", name)
	}
	for _, m := range all[i].list("volumeMounts") {
		c.mounts = append(c.mounts, mount{p.volumes[m.text("name")], m.text("mountPath"), m.at("readOnly") == true})
	}
	for _, e := range all[i].list("env") {
		c.env = append(c.env, e.text("name")+"="+e.text("value"))
	}
	if len(argv) == 0 {
		argv = append([]string{"/docgauge"}, words(all[i].at("args"))...)
	}
	return c.command(t, argv...)
}

// private: the state belongs to the program alone.
func (p *runningPod) private(t *testing.T) {
	t.Helper()
	info, err := os.Stat(p.volumes["data"] + "/state")
	must(t, err)
	if owner := info.Sys().(*syscall.Stat_t).Uid; info.Mode().Perm() != 0o700 || owner == 0 {
		t.Errorf("the state directory has mode %v and belongs to %d", info.Mode(), owner)
	}
}

// sandboxValues are the values of a release against a sandbox, with one prompt.
func sandboxValues(t *testing.T) []string {
	t.Helper()
	s := engines.Sandbox(t, engines.Docgauge(t))
	return []string{
		"--set-string", "baseURL=" + s["DOCGAUGE_BASE_URL"], "--set", "projects={" + s["DOCGAUGE_PROJECTS"] + "}",
		"--set-string", "secrets.apiKey=" + s["DOCGAUGE_API_KEY"], "--set-string", "settings.DOCGAUGE_BUDGET=0",
		"--set-string", `prompts.files.a\.md=Fix all typos. [sandbox:pr]`, "--set", "prompts.onNewState=submit",
	}
}

// TestCronJobPod runs both containers of a rendered CronJob at once, and again after
// a kubelet has changed every mode in the volume.
func TestCronJobPod(t *testing.T) {
	t.Parallel()
	engines.Long(t)
	p := newPod(t, manifests(t, "deployment", append(sandboxValues(t), "--set", "mode=cronjob")...))
	var both sync.WaitGroup
	both.Go(func() { succeed(t, p.command(t, "docgauge")) })
	both.Go(func() { succeed(t, p.command(t, "jobs")) })
	both.Wait()
	p.private(t)
	if n := parquetFiles(t, p.volumes["data"]+"/data"); n < 30 {
		t.Errorf("%d Parquet files", n)
	}
	if out := succeed(t, p.command(t, "jobs", "/docgauge", "jobs", "list", "--json")); !strings.Contains(out, "job_") {
		t.Errorf("no job was created:\n%s", out)
	}
	p.regroup(t, p.volumes["data"])
	if out := succeed(t, p.command(t, "docgauge")); !strings.Contains(out, "success") {
		t.Errorf("the second run:\n%s", out)
	}
	p.private(t)
}

// TestPodOnSubPath: the kubelet makes a subPath, and it belongs to root. So the
// chart lets docgauge make its own directory.
func TestPodOnSubPath(t *testing.T) {
	t.Parallel()
	p := newPod(t, manifests(t, "deployment", "--set", "mode=cronjob"))
	succeed(t, exec.Command("mkdir", "-m", "2770", p.volumes["data"]+"/state"))
	p.regroup(t, p.volumes["data"])
	out, err := p.command(t, "docgauge").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "mode cannot be set to 0700") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDeploymentPod runs the rendered daemon and its probes: it starts, becomes
// ready, is scraped, and ends within the time that the manifest gives it.
func TestDeploymentPod(t *testing.T) {
	t.Parallel()
	engines.Long(t)
	port := strconv.Itoa(engines.FreePort(t))
	all := manifests(t, "deployment", append(sandboxValues(t), "--set", "metrics.port="+port)...)
	p := newPod(t, all)
	cmd := p.command(t, "docgauge")
	log := logFile(t)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
		argv := words(p.spec.list("containers")[0].at(probe, "exec", "command"))
		await(t, func() *exec.Cmd { return p.command(t, "docgauge", argv...) })
	}
	const metric = `docgauge_site_visitors_deduplicated{project="prj_sandbox",window="day"}`
	for end := time.Now().Add(patience); !strings.Contains(get(t, "http://127.0.0.1:"+port+"/metrics"), metric); {
		if time.Now().After(end) {
			t.Fatal("no windows in the metrics")
		}
	}
	p.private(t)
	// helm test asks the Service; here the loopback interface stands for its name.
	probe := find(all, "Pod")[0].list("spec", "containers")[0]
	asked := p.command(t, "docgauge", append([]string{"/docgauge"}, words(probe.at("args"))...)...)
	asked.Env = []string{"PATH=" + os.Getenv("PATH"), "DOCGAUGE_LISTEN_ADDRESS=" +
		strings.Replace(probe.list("env")[0].text("value"), "acme-docgauge.docs.svc", "127.0.0.1", 1)}
	succeed(t, asked)
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	grace, _ := p.spec.at("terminationGracePeriodSeconds").(int)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Duration(grace) * time.Second):
		t.Errorf("it goes on %d s after SIGTERM", grace)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return string(text)
}
