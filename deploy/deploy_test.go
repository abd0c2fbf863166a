package deploy

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	must   = engines.Must
)

const (
	// top is the top of the repository.
	top = ".."
	// patience is the maximum time for an operation on a busy machine.
	patience = 2 * time.Minute
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), mode))
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return files
}

// succeed runs a command to its end, which must be exit code 0, and returns its output.
func succeed(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// tool is a command of a program that the tests need. Without it the test is skipped.
func tool(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), name, args...)
	engines.Need(t, err)
	return cmd
}

// await runs a command again and again until it succeeds.
func await(t *testing.T, command func() *exec.Cmd) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		cmd := command()
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
}

// logFile is for the output of a daemon. A test that fails prints it.
func logFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	t.Cleanup(func() {
		file.Close()
		if t.Failed() {
			t.Log(read(t, file.Name()))
		}
	})
	return file
}

// watch looks at every file below dir, so that go test does not reuse a result
// after a change of a file that only another program reads.
func watch(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() && path != dir && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		_, err := os.Stat(path)
		return err
	})
}

// block is a part of a page that people copy. The comment above says which test
// runs it, or which file of values it shows.
type block struct{ mark, language, text string }

var blocks = regexp.MustCompile("(?ms)^<!-- ([^\n]+) -->\n```([a-z]+)\n(.*?)^```$")

func blocksOf(t *testing.T, page string) (all []block) {
	t.Helper()
	for _, m := range blocks.FindAllStringSubmatch(read(t, page), -1) {
		all = append(all, block{m[1], m[2], m[3]})
	}
	if len(all) == 0 {
		t.Errorf("%s has no marked blocks", page)
	}
	return all
}

// container starts a process like a container engine: in a root file
// system with mounts, as a user, in the network of the test.
type container struct {
	root     string
	readOnly bool
	mounts   []mount
	uid, gid int
	groups   string // supplementary ones, apart by commas
	env      []string
}

// mount is a directory of this machine at a path in the container.
type mount struct {
	source, target string
	readOnly       bool
}

func (c container) command(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount and to become another user")
	}
	var script strings.Builder
	bind := func(m mount) {
		mode := "rw"
		if m.readOnly {
			mode = "ro"
		}
		fmt.Fprintf(&script, "mount --bind '%s' '%[2]s'; mount -o remount,bind,%[3]s '%[2]s'\n", m.source, m.target,
			mode)
	}
	bind(mount{c.root, c.root, c.readOnly})
	for _, m := range c.mounts {
		bind(mount{m.source, c.root + m.target, m.readOnly})
	}
	fmt.Fprintf(&script, `exec setpriv --no-new-privs chroot --userspec=%d:%d --groups=%s '%s' "$@"`,
		c.uid, c.gid, c.groups, c.root)
	cmd := exec.CommandContext(t.Context(), "unshare",
		append([]string{"--mount", "sh", "-ec", script.String(), "sh"}, argv...)...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, c.env...)
	return cmd
}
