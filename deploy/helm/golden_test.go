package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden compares text with a file, or with -update writes it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: `make docs` writes it", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s is another now; `make docs` writes it, if that is right: %s", path, diff)
	}
}

func TestGolden(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".yaml", withoutLinked(template(t, chart, "--values", values(name))))
		})
	}
}

// withoutLinked leaves out the bodies of rules and dashboards: TestRulesArrive and
// TestDashboardsArrive have them.
func withoutLinked(text string) string {
	var kept []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains(document, "kind: PrometheusRule") || strings.Contains(document, "grafana_dashboard") {
			document, _, _ = strings.Cut(document, "\nspec:\n")
			document, _, _ = strings.Cut(document, "\ndata:\n")
		}
		kept = append(kept, document)
	}
	return strings.TrimRight(strings.Join(kept, "\n---\n"), "\n") + "\n"
}

func TestLint(t *testing.T) {
	for _, name := range cases(t) {
		out, said, err := helm(t, "lint", "--strict", "--kube-version", kubernetes, "--values", values(name), chart)
		if err != nil || strings.Contains(out, "[WARNING]") {
			t.Errorf("%s: %v\n%s%s", name, err, out, said)
		}
	}
}

// TestNotes renders the notes, which helm prints only where there is a cluster:
// in a copy of the chart they are a ConfigMap.
func TestNotes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), chart)
	if out, err := exec.Command("cp", "-RL", chart, dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	notes := filepath.Join(dir, "templates", "NOTES.txt")
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	wrapped := "{{ define \"notes\" }}" + string(text) + "{{ end }}kind: Notes\ntext: {{ include \"notes\" . | quote }}\n"
	if err := os.WriteFile(strings.Replace(notes, "NOTES.txt", "notes.yaml", 1), []byte(wrapped), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range cases(t) {
		out := template(t, dir, "--values", values(name), "--show-only", "templates/notes.yaml")
		golden(t, name+".notes.txt", objects(t, out)[0].text("text"))
	}
}
