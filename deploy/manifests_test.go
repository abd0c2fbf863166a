package deploy

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestHelmSecrets renders a secret of each kind, and looks for it.
func TestHelmSecrets(t *testing.T) {
	t.Parallel()
	marks := map[string]string{
		"apiKey": "adm_mark1", "writeAPIKey": "wr_mark2", "clickhouseDSN": "clickhouse://u:mark3@h/d",
		"notifyURL": "https://mark4.example.com", "notifySecret": "mark5", "githubToken": "mark7", "gitlabToken": "mark8", "pushgatewayURL": "https://u:mark6@push.example.com",
		"pingURL": "https://hc.example.com/mark7",
	}
	args := []string{}
	for name, value := range marks {
		args = append(args, "--set-string", "secrets."+name+"="+value)
	}
	for _, mode := range []string{"deployment", "cronjob"} {
		for _, o := range manifests(t, "deployment", append(args, "--set", "mode="+mode)...) {
			secret := o.text("kind") == "Secret"
			if text := fmt.Sprint(o); !secret && strings.Contains(text, "mark") {
				t.Errorf("%s has a secret: %s", o.id(), text)
			}
			if secret && len(o.sub("stringData")) != len(marks) {
				t.Errorf("the Secret has %v", o.sub("stringData").keys())
			}
		}
	}
}

// TestKubernetes decodes what is rendered into the types of the Kubernetes API
// and of the Prometheus operator, where an unknown field is an error. The types
// are in a module of their own, so that docgauge does not depend on Kubernetes.
func TestKubernetes(t *testing.T) {
	t.Parallel()
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
	eachCase(t, func(t *testing.T, name, values string) {
		text := template(t, chart, "--values", values)
		out, err := validate(text)
		if name == "cronjob-full" {
			// It has a volume that "restricted" forbids, and nothing else.
			only := `CronJob/acme-docgauge: restricted: restricted volume types (volume "textfile" uses restricted volume type "hostPath")`
			if want := "NetworkPolicy/acme-docgauge\n" + only + "\nPod/acme-docgauge-test\n"; out != want {
				t.Errorf("%s, want %s", out, want)
			}
			return
		}
		if n := len(objects(t, text)); err != nil || strings.Count(out, "\n") != n {
			t.Errorf("%d manifests, %v\n%s", n, err, out)
		}
	})
	for wrong, want := range map[string]string{
		"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: a}\nspec: {replica: 1}":                        `unknown field "spec.replica"`,
		"kind: CronJob\napiVersion: batch/v1\nmetadata: {name: a}\nspec: {suspend: 1}":                          "cannot unmarshal number",
		"kind: ServiceMonitor\napiVersion: monitoring.coreos.com/v1\nmetadata: {name: a}\nspec: {endpoint: []}": `unknown field "spec.endpoint"`,
		"kind: Service\napiVersion: v1\nmetadata: {name: 1a}":                                                   "start with an alphabetic character",
		"kind: Pot\napiVersion: v1\nmetadata: {name: a}":                                                        `no kind "Pot"`,
	} {
		if out, err := validate(wrong); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s", wrong, err, out)
		}
	}
}

// TestHelmImage compares the pod with the image: its program, user and directory.
func TestHelmImage(t *testing.T) {
	pod, final := podOf(t, manifests(t, "deployment")), stages(t)[1]
	c, user := pod.list("spec", "containers")[0], pod.sub("spec", "securityContext")
	if got, want := words(c.at("startupProbe", "exec", "command"))[:1], final.argv(t, "ENTRYPOINT"); !slices.Equal(got, want) {
		t.Errorf("the probe runs %q, the image %q", got, want)
	}
	if got, want := fmt.Sprintf("%v:%v", user.at("runAsUser"), user.at("runAsGroup")), final["USER"][0]; got != want {
		t.Errorf("the user is %s, in the image %s", got, want)
	}
	if got, want := c.list("volumeMounts")[0].text("mountPath"), final.argv(t, "VOLUME")[0]; got != want {
		t.Errorf("the volume is at %s, in the image at %s", got, want)
	}
}
