package docker

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// patience is how long a container may take to become healthy.
const patience = 2 * time.Minute

// TestImage runs what the image would: as its user, in a root file system where
// only its volume can be written, against a sandbox outside.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds docgauge")
	}
	// That of builders of images: what is made can be read by other users.
	defer syscall.Umask(syscall.Umask(0o022))
	m := build(t)
	m.static(t, "/docgauge")
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	env := append(m.final.environment("ENV"), sandbox(t, filepath.Join(m.root, "docgauge"))...)
	env = append(env, "DOCGAUGE_LISTEN_ADDRESS=0.0.0.0:"+strconv.Itoa(engines.FreePort(t)), "DOCGAUGE_SINCE="+time.Now().AddDate(0, 0, -3).UTC().Format(time.DateOnly))
	before := m.files(t, func(path string) bool { return !strings.HasPrefix(path, "/var/lib/docgauge/") })

	argv := slices.Concat(m.final.exec(t, "ENTRYPOINT"), m.final.exec(t, "CMD"), []string{"--once-at-start"})
	serve := m.command(env, argv...)
	var said bytes.Buffer
	serve.Stderr = &said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	healthcheck := m.final.exec(t, "HEALTHCHECK")
	if err := healthy(t, m, env, healthcheck); err != nil {
		t.Errorf("healthcheck: %v\n%s", err, said.String())
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("serve after SIGTERM: %v\n%s", err, said.String())
	}
	if out, err := m.command(env, healthcheck...).CombinedOutput(); err == nil {
		t.Errorf("healthcheck of a serve that has ended: %s", out)
	}
	if out, err := m.command(env, "/docgauge", "export").CombinedOutput(); err != nil {
		t.Errorf("export: %v\n%s", err, out)
	}
	if after := m.files(t, func(path string) bool { return !strings.HasPrefix(path, "/var/lib/docgauge/") }); !slices.Equal(before, after) {
		t.Errorf("files outside of the volume changed:\n%s\nwas\n%s", after, before)
	}
	if written := m.files(t, func(path string) bool { return strings.HasSuffix(path, ".parquet") }); len(written) < 3 {
		t.Errorf("%d Parquet files in the volume", len(written))
	}
	for _, dir := range []string{"", "state", "data"} {
		info, err := os.Stat(filepath.Join(m.root, "var/lib/docgauge", dir))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("volume %s: %v, want 0700", dir, info.Mode())
		}
	}
}

// command runs argv as the image's user with the image as its root.
func (m image) command(env []string, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Path, cmd.Env, cmd.Dir = argv[0], env, m.final.all("WORKDIR")[0].Text
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: m.root, Credential: &syscall.Credential{Uid: uint32(m.uid), Gid: uint32(m.gid)}, Pdeathsig: syscall.SIGKILL,
	}
	return cmd
}

// healthy waits until the health check and the readiness check succeed.
func healthy(t *testing.T, m image, env, healthcheck []string) error {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		_, err := m.command(env, healthcheck...).Output()
		if err == nil {
			_, err = m.command(env, append(healthcheck, "--ready")...).Output()
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// files lists those of the image that are chosen.
func (m image) files(t *testing.T, chosen func(path string) bool) (found []string) {
	t.Helper()
	err := filepath.WalkDir(m.root, func(path string, _ fs.DirEntry, err error) error {
		if below := strings.TrimPrefix(path, m.root); chosen(below) {
			found = append(found, below)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sandbox runs the service and returns the variables it prints.
func sandbox(t *testing.T, binary string) (env []string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "sandbox", "--listen=127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	var text bytes.Buffer
	for strings.Count(text.String(), "\n") < 3 {
		if _, err := io.CopyN(&text, out, 1); err != nil {
			t.Fatalf("sandbox: %v: %s", err, text.String())
		}
	}
	for line := range strings.Lines(text.String()) {
		env = append(env, strings.TrimSpace(strings.TrimPrefix(line, "export ")))
	}
	return env
}
