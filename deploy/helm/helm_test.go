package helm

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var update = flag.Bool("update", false, "write golden files and the chart's copies of rules and dashboards")

const (
	chart = "docgauge"
	// kubernetes is the version rendered for: helm built by go install takes
	// itself for an old one.
	kubernetes = "1.31.0"
)

// helm runs a command of helm and returns what it says on both outputs.
func helm(t *testing.T, args ...string) (out, said string, err error) {
	t.Helper()
	watch(chart)
	cmd, err := engines.Tool(t.Context(), "helm", args...)
	engines.Need(t, err)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// watch looks at every file below dir, so that go test takes no former result for
// this one's when what another program reads has changed.
func watch(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if d == nil {
			return nil
		}
		if d.IsDir() && path != dir && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		_, err := os.Stat(path)
		return err
	})
}

// template renders the chart of a directory as the release acme in namespace docs.
func template(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, said, err := helm(t, slices.Concat([]string{"template", "acme", dir, "--namespace", "docs", "--kube-version", kubernetes}, args)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, said)
	}
	return out
}

// cases returns the names of the files in testdata/values without ".yaml".
func cases(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no values to render: %v", err)
	}
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	return names
}

func values(name string) string { return filepath.Join("testdata", "values", name+".yaml") }

// object is a manifest, or a part of one.
type object map[string]any

// objects decodes the manifests of a rendered chart.
func objects(t *testing.T, text string) (all []object) {
	t.Helper()
	documents := yaml.NewDecoder(strings.NewReader(text))
	for {
		var o object
		err := documents.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if o != nil {
			all = append(all, o)
		}
	}
}

// manifests renders the chart with a file of values, and more arguments.
func manifests(t *testing.T, name string, args ...string) []object {
	t.Helper()
	return objects(t, template(t, chart, slices.Concat([]string{"--values", values(name)}, args)...))
}

// at follows keys; what is not there is nil.
func (o object) at(path ...string) any {
	var v any = o
	for _, key := range path {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

func (o object) sub(path ...string) object {
	m, _ := o.at(path...).(object)
	return m
}

func (o object) list(path ...string) (out []object) {
	items, _ := o.at(path...).([]any)
	for _, item := range items {
		if m, ok := item.(object); ok {
			out = append(out, m)
		}
	}
	return out
}

func (o object) id() string { return o.text("kind") + "/" + o.text("metadata", "name") }

// contains reports whether o has every entry of part.
func (o object) contains(part object) bool {
	for key, value := range part {
		if o[key] != value {
			return false
		}
	}
	return len(part) > 0
}

// find returns the objects of a kind.
func find(all []object, kind string) (out []object) {
	for _, o := range all {
		if o.text("kind") == kind {
			out = append(out, o)
		}
	}
	return out
}

// podTemplate returns the pod template of a Deployment or CronJob, else nil.
func (o object) podTemplate() object {
	switch o.text("kind") {
	case "Deployment":
		return o.sub("spec", "template")
	case "CronJob":
		return o.sub("spec", "jobTemplate", "spec", "template")
	}
	return nil
}

// pods returns the pod templates, each with the name of what it belongs to.
func pods(all []object) map[string]object {
	out := map[string]object{}
	for _, o := range all {
		if template := o.podTemplate(); template != nil {
			out[o.id()] = template
		}
	}
	return out
}

// names returns the field of each object, sorted.
func names(all []object, field string) (out []string) {
	for _, o := range all {
		out = append(out, o.text(field))
	}
	slices.Sort(out)
	return out
}

func keys(o object) []string { return slices.Sorted(maps.Keys(o)) }

// words is a list of text.
func words(v any) (out []string) {
	items, _ := v.([]any)
	for _, item := range items {
		out = append(out, fmt.Sprint(item))
	}
	return out
}
