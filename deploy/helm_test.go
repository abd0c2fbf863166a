package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/config"
)

const (
	chart = "helm/docgauge"
	// kubernetes is the version rendered for: helm built by go install takes
	// itself for an old one.
	kubernetes = "1.31.0"
)

// helm runs a command of helm and returns both outputs.
func helm(t *testing.T, args ...string) (out, stderr string, err error) {
	t.Helper()
	watch(chart)
	cmd := tool(t, "helm", args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &said
	err = cmd.Run()
	return stdout.String(), said.String(), err
}

// template renders a chart as the release acme in namespace docs.
func template(t *testing.T, path string, args ...string) string {
	t.Helper()
	out, stderr, err := helm(t,
		slices.Concat([]string{"template", "acme", path, "--namespace", "docs", "--kube-version", kubernetes}, args)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	return out
}

func values(name string) string { return "helm/testdata/values/" + name + ".yaml" }

// object is a manifest, or a part of one.
type object map[string]any

// objects decodes the manifests of a rendered chart.
func objects(t *testing.T, text string) (all []object) {
	t.Helper()
	for documents := yaml.NewDecoder(strings.NewReader(text)); ; {
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

// at follows keys; the result for a missing key is nil.
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

// find returns the objects of a kind.
func find(all []object, kind string) (out []object) {
	for _, o := range all {
		if o.text("kind") == kind {
			out = append(out, o)
		}
	}
	return out
}

// podOf returns the one pod template of the manifests.
func podOf(t *testing.T, all []object) object {
	t.Helper()
	var pods []object
	for _, o := range find(all, "Deployment") {
		pods = append(pods, o.sub("spec", "template"))
	}
	for _, o := range find(all, "CronJob") {
		pods = append(pods, o.sub("spec", "jobTemplate", "spec", "template"))
	}
	if len(pods) != 1 {
		t.Fatalf("%d pods", len(pods))
	}
	return pods[0]
}

// words is a list of text.
func words(v any) (out []string) {
	items, _ := v.([]any)
	for _, item := range items {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

// golden compares text with a file, or with -update writes it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := "helm/testdata/golden/" + name
	if *update {
		write(t, path, text, 0o644)
	}
	if diff := cmp.Diff(strings.Split(read(t, path), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s differs; `make docs` writes it, if that is right: %s", path, diff)
	}
}

// TestHelmGolden lints the chart with each file of values, compares what it renders, and decodes
// that into the types of the Kubernetes API and of the Prometheus operator, where an unknown
// field is an error. The types are in a module apart, so that docgauge does not depend on
// Kubernetes. The bodies of rules and dashboards are left to TestHelmArchive. helm prints the
// notes only where there is a cluster: in a copy of the chart they are a manifest.
func TestHelmGolden(t *testing.T) {
	t.Parallel()
	validate, notes := validator(t), t.TempDir()+"/docgauge"
	succeed(t, exec.Command("cp", "-RL", chart, notes))
	write(t, notes+"/templates/notes.yaml", "{{ define \"notes\" }}"+read(t, notes+"/templates/NOTES.txt")+
		"{{ end }}kind: Notes\ntext: {{ include \"notes\" . | quote }}\n", 0o644)
	for _, path := range glob(t, "helm/testdata/values/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, stderr, err := helm(t, "lint", "--strict", "--kube-version", kubernetes, "--values", path, chart)
			if err != nil || strings.Contains(out, "[WARNING]") {
				t.Errorf("helm lint: %v\n%s%s", err, out, stderr)
			}
			text, documents := template(t, chart, "--values", path), []string(nil)
			for document := range strings.SplitSeq(text, "\n---\n") {
				if strings.Contains(document, "kind: PrometheusRule") ||
					strings.Contains(document, "grafana_dashboard") {
					document, _, _ = strings.Cut(document, "\nspec:\n")
					document, _, _ = strings.Cut(document, "\ndata:\n")
				}
				documents = append(documents, document)
			}
			golden(t, name+".yaml", strings.TrimRight(strings.Join(documents, "\n---\n"), "\n")+"\n")
			shown := template(t, notes, "--values", path, "--show-only", "templates/notes.yaml")
			golden(t, name+".notes.txt", objects(t, shown)[0].text("text"))

			said, err := validate(text)
			if name == "cronjob-full" {
				// It has a volume that "restricted" forbids, and nothing else.
				const only = "restricted: restricted volume types (volume \"textfile\" uses restricted volume type " +
					"\"hostPath\")"
				if want := "NetworkPolicy/acme-docgauge\nCronJob/acme-docgauge: " + only +
					"\nPod/acme-docgauge-test\n"; said != want {
					t.Errorf("%s, want %s", said, want)
				}
			} else if n := len(objects(t, text)); err != nil || strings.Count(said, "\n") != n {
				t.Errorf("%d manifests, %v\n%s", n, err, said)
			}
		})
	}
}

// validator builds helm/validate, and checks that it refuses wrong manifests.
func validator(t *testing.T) func(manifests string) (string, error) {
	t.Helper()
	watch("helm/validate")
	binary := t.TempDir() + "/validate"
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = "helm/validate"
	succeed(t, build)
	validate := func(text string) (string, error) {
		cmd := exec.Command(binary)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for wrong, want := range map[string]string{
		"kind: Deployment\napiVersion: apps/v1\nspec: {replica: " +
			"1}": `unknown field "spec.replica"`,
		"kind: ServiceMonitor\napiVersion: monitoring.coreos.com/v1\nspec: {endpoint: " +
			"[]}": `unknown field "spec.endpoint"`,
		"kind: CronJob\napiVersion: batch/v1\nmetadata: {name: a}\nspec: {suspend: 1}": "cannot unmarshal number",
		"kind: Service\napiVersion: v1\nmetadata: {name: " +
			"1a}": "start with an alphabetic character",
		"kind: Pot\napiVersion: v1\nmetadata: {name: a}": `no kind "Pot"`,
	} {
		if out, err := validate(wrong); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s", wrong, err, out)
		}
	}
	return validate
}

// configMapLimit is the size of an object that kubectl apply can note on the client's side.
const configMapLimit = 256 << 10

// TestHelmArchive renders a packaged chart: it has every rule of this repository,
// unchanged by the templates, which have the same language as the alerts' texts, and each dashboard as a ConfigMap
// that Grafana's sidecar finds. A chart without its symbolic links refuses to render them.
func TestHelmArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, stderr, err := helm(t, "package", "--destination", dir, chart); err != nil {
		t.Fatalf("helm package: %v\n%s", err, stderr)
	}
	all := objects(t, template(t, glob(t, dir+"/docgauge-*.tgz")[0], "--values", values("deployment-full")))

	var groups []any
	for _, file := range []string{"prometheus/alerts.yaml", "prometheus/recording.yaml"} {
		var doc struct{ Groups []any }
		decode(t, file, &doc)
		groups = append(groups, doc.Groups...)
	}
	rules := find(all, "PrometheusRule")
	if len(rules) != 1 || asJSON(t, rules[0].at("spec", "groups")) != asJSON(t, groups) {
		t.Errorf("%d PrometheusRules, or other rules than the files have", len(rules))
	}

	arrived := map[string]string{}
	for _, o := range find(all, "ConfigMap") {
		if o.text("metadata", "labels", "grafana_dashboard") == "1" {
			for name := range o.sub("data") {
				arrived[name] = o.text("data", name)
			}
			if n := len(asJSON(t, o)); n > configMapLimit {
				t.Errorf("%s has %d bytes: kubectl apply takes %d", o.id(), n, configMapLimit)
			}
		}
	}
	sources := glob(t, "../dashboards/json/*.json")
	if len(sources) != len(arrived) {
		t.Errorf("%d dashboards, %d ConfigMaps", len(sources), len(arrived))
	}
	for _, path := range sources {
		var want, got any
		if json.Unmarshal([]byte(read(t, path)), &want) != nil ||
			json.Unmarshal([]byte(arrived[filepath.Base(path)]), &got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is not what arrives", path)
		}
	}

	succeed(t, exec.Command("cp", "-RL", chart, dir))
	for _, part := range []string{"rules", "dashboards"} {
		must(t, os.RemoveAll(filepath.Join(dir, "docgauge", "files", part)))
		_, stderr, err := helm(t, "template", "acme", dir+"/docgauge", "--kube-version", kubernetes,
			"--values", values("deployment"), "--set", "metrics."+part+".enabled=true")
		if err == nil || !strings.Contains(stderr, "this copy of the chart has no "+part) {
			t.Errorf("without %s: %v, %s", part, err, stderr)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

// TestDocumentation renders each file of values that the pages show, and runs their commands.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	watch(chart)
	path := filepath.Dir(tool(t, "helm").Path) + ":" + os.Getenv("PATH")
	here, err := filepath.Abs(".")
	must(t, err)
	for _, page := range []string{"../docs/kubernetes.md", chart + "/README.md"} {
		dir := t.TempDir()
		must(t, os.Symlink(here, filepath.Join(dir, "deploy")))
		for _, b := range blocksOf(t, page) {
			if name, ok := strings.CutPrefix(b.mark, "values: "); ok {
				write(t, filepath.Join(dir, name), b.text, 0o600)
				template(t, chart, "--values", filepath.Join(dir, name))
			}
			if b.mark == "executed: TestDocumentation" {
				cmd := exec.CommandContext(t.Context(), "sh", "-ec", b.text)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path, "HOME="+dir)
				succeed(t, cmd)
			}
		}
	}
}

// TestHelmRefuses: wrong values are refused before anything is installed, by a line that names
// the place and the form. The schema reports all wrong values at once: the values of a run are set together.
func TestHelmRefuses(t *testing.T) {
	type wrong struct{ run, values, set, want string }
	runs := map[string][]wrong{}
	for _, tc := range []wrong{
		{"schema", "deployment", "projets={a}", "additional properties 'projets' not allowed"},
		{"schema", "deployment", "image.tags=v1", "at '/image': additional properties 'tags' not allowed"},
		{"schema", "deployment", "mode=statefulset", "at '/mode': value must be one of 'deployment', 'cronjob'"},
		{"second", "deployment", "projects=null", "missing property 'projects'"},
		{"schema", "deployment", "projects={prj a}", "at '/projects/0': 'prj a' does not match"},
		{"schema", "deployment", "baseURL=http://api.example.com", "at '/baseURL': 'http://api.example.com' does not match"},
		{"second", "deployment", "baseURL=", "at '/baseURL': '' does not match"},
		{"", "deployment", "secrets.apiKey=",
			"secrets: set existingSecret (and existingKeys.apiKey), or for a trial apiKey"},
		{"", "cronjob", "secrets.existingKeys.apiKey=", "secrets: set existingSecret (and existingKeys.apiKey)"},
		{"", "cronjob", "secrets.apiKey=a_b", "secrets: with existingSecret the chart makes no Secret"},
		{"schema", "deployment", "settings.DOCGAUGE_BUGDET=1", "additional properties 'DOCGAUGE_BUGDET' not allowed"},
		{"schema", "deployment", "settings.DOCGAUGE_BUDGET=80", "at '/settings/DOCGAUGE_BUDGET': got number, want string"},
		{"", "deployment", "extraEnv[0].name=DOCGAUGE_BUDGET",
			"extraEnv: DOCGAUGE_BUDGET: variables of docgauge belong in"},
		{"", "deployment", `settings.DOCGAUGE_SINKS=parquet\,postgres`, "set secrets.existingKeys.postgresDSN"},
		{"", "deployment", `settings.DOCGAUGE_SINKS=parquet\,clickhouse`, "set secrets.existingKeys.clickhouseDSN"},
		{"", "deployment", "secrets.notifySecret=x", "notifySecret has no effect without notifyURL"},
		{"", "deployment", "image.tag=latest", "image.tag: latest is another program tomorrow"},
		{"schema", "deployment", "image.digest=sha256:12", "at '/image/digest': 'sha256:12' does not match"},
		{"schema", "deployment", "schedule=1 * * *", "at '/schedule': '1 * * *' does not match"},
		{"", "podmonitor", `prompts.files.a\.md=x`, "prompts: set one of files, existingConfigMap and volume"},
		{"schema", "deployment", `prompts.files.a\.yaml=x`,
			"at '/prompts/files': additional properties 'a.yaml' not allowed"},
		{"", "cronjob", "metrics.monitor.kind=PodMonitor",
			"metrics.monitor: a pod of mode cronjob ends before it is scraped"},
		{"", "deployment", "metrics.service.enabled=false,metrics.monitor.kind=ServiceMonitor",
			"needs metrics.service.enabled"},
		{"schema", "deployment", "persistence.accessMode=ReadWriteMany",
			"at '/persistence/accessMode': value must be one of"},
		{"schema", "deployment", "deployment.terminationGracePeriodSeconds=5", "minimum: got 5, want 30"},
	} {
		key := tc.values + " " + tc.run
		if tc.run == "" {
			key += tc.set
		}
		runs[key] = append(runs[key], tc)
	}
	for name, cases := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"template", "acme", chart, "--kube-version", kubernetes, "--values", values(cases[0].values)}
			for _, tc := range cases {
				args = append(args, "--set", tc.set)
			}
			_, stderr, err := helm(t, args...)
			for _, tc := range cases {
				if err == nil || !strings.Contains(stderr, tc.want) {
					t.Errorf("%s: %v, %q, want %q", tc.set, err, stderr, tc.want)
				}
			}
		})
	}
}

// own are the variables, besides secrets, that have separate chart values, outside settings.
var own = []string{
	"DOCGAUGE_BASE_URL", "DOCGAUGE_PROJECTS", "DOCGAUGE_SCHEDULE", "DOCGAUGE_LISTEN_ADDRESS",
	"DOCGAUGE_WEB_CONFIG_FILE", "DOCGAUGE_STATE_DIR", "DOCGAUGE_PROMPTS_DIR", "DOCGAUGE_PROMPTS_ON_NEW_STATE",
	"DOCGAUGE_ENV_FILE",
}

// secret is a variable, and for a secret the chart value below secrets that has it, its file, and the sink that
// needs it, if any.
type secret struct{ variable, value, file, sink string }

// variables returns the settings and secrets of the chart. The settings of a site are left out: docs/kubernetes.md runs
// site serve in a second container, which has its own settings.
func variables() (settings, secrets []secret) {
	sinks := map[string]string{}
	for _, k := range config.SinkKinds {
		if k.Place == config.Server {
			sinks[k.Settings[0]] = k.Name
		}
	}
	for _, v := range config.Variables() {
		name := strings.TrimPrefix(v.Name, "DOCGAUGE_")
		switch {
		case v.Meaning == "", strings.HasPrefix(name, "SITE_"), slices.Contains(own, v.Name):
		case v.Secret:
			words := strings.Split(strings.ToLower(name), "_")
			file := strings.Join(words, "-")
			for i, word := range words[1:] {
				if slices.Contains([]string{"api", "dsn", "url"}, word) {
					words[i+1] = strings.ToUpper(word)
				} else {
					words[i+1] = strings.ToUpper(word[:1]) + word[1:]
				}
			}
			secrets = append(secrets, secret{v.Name, strings.Join(words, ""), file, sinks[v.Name]})
		default:
			settings = append(settings, secret{variable: v.Name})
		}
	}
	return settings, secrets
}

// TestNoKeyTwice: Helm takes the last of two equal keys of a JSON object, other tools refuse the
// file, and so does a decoder of YAML.
func TestNoKeyTwice(t *testing.T) {
	for _, path := range append(glob(t, "../dashboards/json/*.json"), chart+"/values.schema.json") {
		var all any
		decode(t, path, &all)
	}
}

// TestHelmSettings: each variable of the program can be set, and no other. With -update it writes the lists of them in
// the chart, each between two texts.
func TestHelmSettings(t *testing.T) {
	settings, secrets := variables()
	const schema = "values.schema.json"
	for _, part := range []struct {
		file, begin, end string
		list             []secret
		line, between    string
	}{
		{schema, "variables of docgauge, as text\",\n      \"properties\": {", "\n      }\n    }",
			settings, "\n        %[1]q: {\"type\": \"string\"}", ","},
		{schema, "\"additionalProperties\": false,\n          \"properties\": {", "\n          }\n        }",
			secrets, "\n            %[2]q: {\"type\": \"string\", \"pattern\": \"^[-._A-Za-z0-9]*$\"}", ","},
		{schema, "*$\"}\n          }\n        },", "\n      }\n    }",
			secrets, "\n        %[2]q: {\"type\": \"string\"}", ","},
		{"values.yaml", "apiKey: api-key\n", "  # Or the secrets", secrets[1:], "    %[2]s: \"\"\n", ""},
		{"values.yaml", "for a trial, not in production.\n", "\n# Agent jobs", secrets, "  %[2]s: \"\"\n", ""},
		{"templates/_helpers.tpl", "define \"docgauge.secrets\" }}\n", "{{- end }}", secrets,
			"- {variable: %[1]s, value: %[2]s, file: %[3]s, sink: %[4]q}\n", ""},
	} {
		path := chart + "/" + part.file
		before, rest, ok := strings.Cut(read(t, path), part.begin)
		end := strings.Index(rest, part.end)
		if !ok || end < 0 {
			t.Fatalf("%s lacks %q, or %q after it", path, part.begin, part.end)
		}
		var lines []string
		for _, s := range part.list {
			lines = append(lines, fmt.Sprintf(part.line, s.variable, s.value, s.file, s.sink))
		}
		golden(t, "../../docgauge/"+part.file, before+part.begin+strings.Join(lines, part.between)+rest[end:])
	}
}

// TestHelmSecrets renders a secret of each kind, and looks for it.
func TestHelmSecrets(t *testing.T) {
	t.Parallel()
	_, secrets := variables()
	args := []string{}
	for i, s := range secrets {
		args = append(args, "--set-string", fmt.Sprintf("secrets.%s=mark%d", s.value, i))
	}
	for _, mode := range []string{"deployment", "cronjob"} {
		for _, o := range manifests(t, "deployment", append(args, "--set", "mode="+mode)...) {
			secret := o.text("kind") == "Secret"
			if text := fmt.Sprint(o); !secret && strings.Contains(text, "mark") {
				t.Errorf("%s has a secret: %s", o.id(), text)
			}
			if secret && len(o.sub("stringData")) != len(secrets) {
				t.Errorf("the Secret has %v", o.sub("stringData"))
			}
		}
	}
}

// TestHelmImage compares the pod with the image: its program, user and directory.
func TestHelmImage(t *testing.T) {
	pod, final := podOf(t, manifests(t, "deployment")), stages(t)[1]
	c, user := pod.list("spec", "containers")[0], pod.sub("spec", "securityContext")
	if got, want := words(c.at("startupProbe", "exec", "command"))[:1], final.argv(t, "ENTRYPOINT"); !slices.Equal(got,
		want) {
		t.Errorf("the probe runs %q, the image %q", got, want)
	}
	if got, want := fmt.Sprintf("%v:%v", user.at("runAsUser"), user.at("runAsGroup")), final["USER"][0]; got != want {
		t.Errorf("the user is %s, in the image %s", got, want)
	}
	if got, want := c.list("volumeMounts")[0].text("mountPath"), final.argv(t, "VOLUME")[0]; got != want {
		t.Errorf("the volume is at %s, in the image at %s", got, want)
	}
}
