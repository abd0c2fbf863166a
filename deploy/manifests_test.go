package deploy

import (
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestHelmManifests: what every release keeps to, whatever its values are.
func TestHelmManifests(t *testing.T) {
	all, secrets := variables(t)
	eachCase(t, func(t *testing.T, name, _ string) {
		manifests := manifests(t, name)
		pod := podOf(t, manifests)
		for _, o := range manifests {
			oneAtATime(t, o)
			if o.text("metadata", "namespace") != "docs" {
				t.Errorf("%s is in no namespace", o.id())
			}
		}
		expect(t, "pod", pod.sub("spec"), map[string]any{
			"automountServiceAccountToken": false, "enableServiceLinks": false,
			"securityContext.runAsNonRoot": true, "securityContext.seccompProfile.type": "RuntimeDefault",
			"hostNetwork": nil, "hostPID": nil,
		})
		for _, c := range containers(pod) {
			checkContainer(t, c)
		}
		for _, c := range pod.list("spec", "containers") {
			checkEnvironment(t, c, all, secrets)
		}
		checkTestPod(t, manifests)
		checkSelectors(t, manifests, pod.sub("metadata", "labels"))
		checkVolumes(t, manifests, pod)
		checkPorts(t, manifests, pod)
	})
}

// checkTestPod: helm test runs one pod, as confined as the others, which no Service selects.
func checkTestPod(t *testing.T, all []object) {
	t.Helper()
	pods := find(all, "Pod")
	if len(pods) != 1 || pods[0].text("metadata", "annotations", "helm.sh/hook") != "test" {
		t.Fatalf("%d pods, want that of helm test", len(pods))
	}
	expect(t, "test", pods[0].sub("spec"), map[string]any{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false, "securityContext.runAsNonRoot": true,
	})
	container := containers(object{"spec": pods[0].at("spec")})[0]
	checkContainer(t, container)
	name := pods[0].text("metadata", "labels", "app.kubernetes.io/name")
	services := find(all, "Service")
	for _, s := range services {
		if s.text("spec", "selector", "app.kubernetes.io/name") == name {
			t.Error("the Service selects the pod of helm test")
		}
	}
	if asked := container.text("name") == "healthcheck"; asked != (len(services) == 1) {
		t.Errorf("helm test asks serve: %v, with %d Services", asked, len(services))
	}
}

func containers(pod object) []object {
	return slices.Concat(pod.list("spec", "initContainers"), pod.list("spec", "containers"))
}

// expect compares the values at paths of an object.
func expect(t *testing.T, id string, o object, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if got := o.at(strings.Split(path, ".")...); !reflect.DeepEqual(got, value) {
			t.Errorf("%s: %s is %v, want %v", id, path, got, value)
		}
	}
}

// oneAtATime: two processes never have the state at once.
func oneAtATime(t *testing.T, o object) {
	t.Helper()
	expect(t, o.id(), o, map[string]map[string]any{
		"Deployment": {"spec.replicas": 1, "spec.strategy.type": "Recreate"},
		"CronJob": {
			"spec.concurrencyPolicy": "Forbid", "spec.jobTemplate.spec.backoffLimit": 0, "spec.timeZone": "Etc/UTC",
			"spec.jobTemplate.spec.template.spec.restartPolicy": "Never",
		},
		"Service": {"spec.publishNotReadyAddresses": true},
	}[o.text("kind")])
}

func checkContainer(t *testing.T, c object) {
	t.Helper()
	expect(t, c.text("name"), c.sub("securityContext"), map[string]any{
		"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities.drop": []any{"ALL"},
	})
	image := c.text("image")
	if name := image[strings.LastIndexByte(image, '/')+1:]; !strings.Contains(name, ":") || strings.HasSuffix(name, ":latest") {
		t.Errorf("container %s has image %q, want a tag or a digest", c.text("name"), image)
	}
	for _, m := range c.list("volumeMounts") {
		if m.at("subPath") != nil {
			t.Errorf("%s: the kubelet makes a subPath, and it belongs to root", m.text("mountPath"))
		}
	}
}

// checkEnvironment: variables are the program's, each once, and none is a secret.
func checkEnvironment(t *testing.T, c object, all, secrets []string) {
	t.Helper()
	seen := names(c.list("env"), "name")
	unique(t, c.text("name"), seen)
	for _, name := range seen {
		if file, ok := strings.CutSuffix(name, "_FILE"); ok && slices.Contains(secrets, file) {
			continue
		}
		ours := strings.HasPrefix(name, "DOCGAUGE_")
		if ours && (!slices.Contains(all, name) || slices.Contains(secrets, name)) {
			t.Errorf("%s is no variable of the program, or a secret in plain sight", name)
		}
	}
}

func unique(t *testing.T, where string, sorted []string) {
	t.Helper()
	if len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		t.Errorf("%s: something comes twice in %v", where, sorted)
	}
}

// checkSelectors: selectors find the pod, and that of a ServiceMonitor the Service.
func checkSelectors(t *testing.T, all []object, labels object) {
	t.Helper()
	selects := func(o object, labels object, path ...string) {
		selector := o.sub(path...)
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("%s selects %v, and the labels are %v", o.id(), selector, labels)
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects nothing", o.id())
		}
	}
	for kind, path := range map[string][]string{
		"Deployment": {"spec", "selector", "matchLabels"}, "Service": {"spec", "selector"},
		"NetworkPolicy": {"spec", "podSelector", "matchLabels"}, "PodMonitor": {"spec", "selector", "matchLabels"},
	} {
		for _, o := range find(all, kind) {
			selects(o, labels, path...)
		}
	}
	for _, monitor := range find(all, "ServiceMonitor") {
		selects(monitor, find(all, "Service")[0].sub("metadata", "labels"), "spec", "selector", "matchLabels")
	}
}

// outside is what the files of values take from elsewhere.
var outside = []string{
	"ConfigMap/company-ca", "ConfigMap/docs-prompts", "PersistentVolumeClaim/globex-state",
	"Secret/acme", "Secret/acme-docgauge", "Secret/acme-web", "Secret/docs-a", "Secret/globex", "Secret/globex-s3",
}

// checkVolumes: mounts have volumes, and volumes have what they name.
func checkVolumes(t *testing.T, all []object, pod object) {
	t.Helper()
	volumes := names(pod.list("spec", "volumes"), "name")
	unique(t, "volumes", volumes)
	for _, c := range containers(pod) {
		unique(t, "mounts", names(c.list("volumeMounts"), "mountPath"))
		for _, mount := range c.list("volumeMounts") {
			if !slices.Contains(volumes, mount.text("name")) {
				t.Errorf("mount of %s, volumes are %v", mount.text("name"), volumes)
			}
		}
	}
	for _, v := range pod.list("spec", "volumes") {
		for kind, name := range map[string]string{
			"Secret": v.text("secret", "secretName"), "ConfigMap": v.text("configMap", "name"),
			"PersistentVolumeClaim": v.text("persistentVolumeClaim", "claimName"),
		} {
			wanted := kind + "/" + name
			made := slices.ContainsFunc(all, func(o object) bool { return o.id() == wanted })
			if name != "" && !made && !slices.Contains(outside, wanted) {
				t.Errorf("volume %s wants %s, which nobody makes", v.text("name"), wanted)
			}
		}
	}
}

// checkPorts: the ports of Services and monitors are those of the containers.
func checkPorts(t *testing.T, all []object, pod object) {
	t.Helper()
	var ports []string
	for _, c := range pod.list("spec", "containers") {
		ports = append(ports, names(c.list("ports"), "name")...)
	}
	for kind, at := range map[string][2]string{
		"Service": {"ports", "targetPort"}, "ServiceMonitor": {"endpoints", "port"}, "PodMonitor": {"podMetricsEndpoints",
			"port"},
	} {
		for _, o := range find(all, kind) {
			if got := names(o.list("spec", at[0]), at[1]); !slices.Equal(got, ports) {
				t.Errorf("%s: ports %v, the pod has %v", o.id(), got, ports)
			}
		}
	}
}

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

// TestHelmChecksum: another secret is another pod, another prompt is not.
func TestHelmChecksum(t *testing.T) {
	t.Parallel()
	sum := func(set string) string {
		return podOf(t, manifests(t, "deployment", "--set", set)).text("metadata", "annotations", "checksum/secret")
	}
	before := sum("secrets.apiKey=a_b")
	if before == "" || sum("secrets.apiKey=a_c") == before {
		t.Error("a new secret does not change the pod")
	}
	if sum(`secrets.apiKey=a_b,prompts.files.a\.md=x`) != before {
		t.Error("a new prompt changes the pod")
	}
}

// TestHelmSchedules: releases without a schedule export at different minutes, each
// always at the same.
func TestHelmSchedules(t *testing.T) {
	t.Parallel()
	minutes := map[string]bool{}
	for i := range 8 {
		out, stderr, err := helm(t, "template", fmt.Sprintf("org-%d", i), chart, "--kube-version", kubernetes,
			"--values", values("cronjob"), "--show-only", "templates/cronjob.yaml")
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		schedule := objects(t, out)[0].text("spec", "schedule")
		if !strings.HasSuffix(schedule, " * * * *") {
			t.Fatalf("schedule %q", schedule)
		}
		minutes[schedule] = true
	}
	if len(minutes) < 5 {
		t.Errorf("8 releases export at %v", minutes)
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
