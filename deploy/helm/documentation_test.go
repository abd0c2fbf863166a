package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var (
	block = regexp.MustCompile("(?ms)^<!-- (executed: TestDocumentation|values: ([a-z]+\\.yaml)|not executed: [^\n]+) -->\n```[a-z]+\n(.*?)^```$")
	fence = regexp.MustCompile("(?m)^```[a-z]+$")
)

// TestDocumentation renders each file of values that the pages show, and runs
// their commands; which of them are not run, a comment above says.
func TestDocumentation(t *testing.T) {
	watch(chart)
	cmd, err := engines.Tool(t.Context(), "helm")
	engines.Need(t, err)
	path := filepath.Dir(cmd.Path) + ":" + os.Getenv("PATH")
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"../../docs/kubernetes.md", chart + "/README.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := block.FindAllStringSubmatch(string(text), -1)
		if n := len(fence.FindAllString(string(text), -1)); n != len(blocks) || n == 0 {
			t.Errorf("%s: %d blocks, and %d with a comment that says who executes them", page, n, len(blocks))
		}
		dir := t.TempDir()
		if err := os.Symlink(filepath.Join(top, "deploy"), filepath.Join(dir, "deploy")); err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			kind, file, body := b[1], b[2], b[3]
			switch {
			case file != "":
				name := filepath.Join(dir, file)
				if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
				template(t, chart, "--values", name)
			case strings.HasPrefix(kind, "executed"):
				cmd := exec.CommandContext(t.Context(), "sh", "-ec", body)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path, "HOME="+dir)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s\n%s", page, err, body, out)
				}
			}
		}
	}
}
