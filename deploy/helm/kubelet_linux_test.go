package helm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubelet makes the volumes of a pod and says how its containers run.
type kubelet struct {
	root    string // of the image
	volumes map[string]string
	pod     object
	group   int // fsGroup; 0 if there is none
}

// start makes what the rendered pod needs. Its modes and owners are those of
// kubelets with fsGroup: the root of a volume belongs to root, and to the group.
func start(t *testing.T, all []object, binary string) *kubelet {
	t.Helper()
	var k kubelet
	for _, k.pod = range pods(all) {
	}
	k.group, _ = k.pod.at("spec", "securityContext", "fsGroup").(int)
	k.root, k.volumes = t.TempDir(), map[string]string{}
	if err := os.Link(binary, k.root+"/docgauge"); err != nil {
		t.Fatal(err)
	}
	for _, v := range k.pod.list("spec", "volumes") {
		k.volumes[v.text("name")] = k.volume(t, v, all)
	}
	for _, c := range k.pod.list("spec", "containers") {
		for _, m := range c.list("volumeMounts") {
			if err := os.MkdirAll(k.root+m.text("mountPath"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &k
}

func (k *kubelet) volume(t *testing.T, v object, all []object) string {
	t.Helper()
	dir := t.TempDir()
	for _, o := range all {
		switch o.id() {
		case "Secret/" + v.text("secret", "secretName"):
			mode, _ := v.at("secret", "defaultMode").(int)
			for _, item := range v.list("secret", "items") {
				k.project(t, dir, item.text("path"), o.text("stringData", item.text("key")), os.FileMode(mode))
			}
		case "ConfigMap/" + v.text("configMap", "name"):
			for _, name := range keys(o.sub("data")) {
				k.project(t, dir, name, o.text("data", name), 0o644)
			}
		}
	}
	root := os.FileMode(0o777) // of everything but a disk
	if v.at("persistentVolumeClaim") != nil {
		root = 0o755
	}
	k.own(t, dir, root)
	return dir
}

// own gives a file to root, and with fsGroup to the group what the owner may, as
// far as the kubelet does that.
func (k *kubelet) own(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if k.group != 0 && info.IsDir() {
		mode |= 0o070 | os.ModeSetgid
	} else if k.group != 0 {
		mode |= 0o040
	}
	if err := os.Lchown(path, 0, k.group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// project writes a file as the kubelet does, below ..data, which is a link.
func (k *kubelet) project(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	const version = "..2026_11_21"
	if err := os.MkdirAll(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, version, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	k.own(t, path, mode)
	_ = os.Symlink(version, filepath.Join(dir, "..data")) // there after the first file
	if err := os.Symlink("..data/"+name, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// regroup is what fsGroupChangePolicy Always does at each start of a pod, and
// OnRootMismatch at some.
func (k *kubelet) regroup(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o660
		if d.IsDir() {
			mode |= 0o110 | os.ModeSetgid
		}
		if err := os.Lchown(path, -1, k.group); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// container is a container of the pod with other arguments, or a command in it.
func (k *kubelet) container(t *testing.T, name string, argv ...string) container {
	t.Helper()
	all := k.pod.list("spec", "containers")
	at := slices.IndexFunc(all, func(c object) bool { return c.text("name") == name })
	if at < 0 {
		t.Fatalf("no container %s", name)
	}
	user := k.pod.sub("spec", "securityContext")
	c := container{Root: k.root, ReadOnly: all[at].at("securityContext", "readOnlyRootFilesystem") == true}
	if k.group != 0 {
		c.Groups = []int{k.group}
	}
	c.UID, _ = user.at("runAsUser").(int)
	c.GID, _ = user.at("runAsGroup").(int)
	if c.UID == 0 || c.GID == 0 {
		t.Fatalf("container %s runs as root", name)
	}
	for _, m := range all[at].list("volumeMounts") {
		c.Mounts = append(c.Mounts, mount{k.volumes[m.text("name")], m.text("mountPath"), m.at("readOnly") == true})
	}
	for _, e := range all[at].list("env") {
		c.Env = append(c.Env, e.text("name")+"="+e.text("value"))
	}
	if c.Argv = argv; len(argv) == 0 {
		c.Argv = append([]string{"/docgauge"}, words(all[at].at("args"))...)
	}
	return c
}

// run runs a container to its end, which must be exit code 0.
func (k *kubelet) run(t *testing.T, name string, argv ...string) string {
	t.Helper()
	c := k.container(t, name, argv...)
	out, err := c.command(t).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(c.Argv, " "), err, out)
	}
	return string(out)
}
