package dashboards

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files of json/")

// TestFiles holds the committed files against the code.
func TestFiles(t *testing.T) {
	want, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := write("json", want); err != nil {
			t.Fatal(err)
		}
	}
	have, err := filepath.Glob("json/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range have {
		if want[filepath.Base(path)] == nil {
			t.Errorf("%s is of no dashboard: remove it", path)
		}
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join("json", name))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(text), string(got)); diff != "" {
			t.Errorf("json/%s differs from the code: run `make docs`\n%s", name, diff)
		}
	}
}

func write(dir string, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
