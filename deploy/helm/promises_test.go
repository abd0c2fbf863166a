package helm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestPromises: what every release keeps to, however its values are.
func TestPromises(t *testing.T) {
	for _, name := range cases(t) {
		all := manifests(t, name)
		for id, pod := range pods(all) {
			for _, problem := range slices.Concat(unsafePod(pod), badEnvironment(t, pod)) {
				t.Errorf("%s: %s: %s", name, id, problem)
			}
		}
		for _, o := range all {
			for _, problem := range oneAtATime(o) {
				t.Errorf("%s: %s: %s", name, o.id(), problem)
			}
			if o.text("metadata", "namespace") != "docs" {
				t.Errorf("%s: %s is in no namespace", name, o.id())
			}
		}
	}
}

// oneAtATime: two processes never have the state at once.
func oneAtATime(o object) (problems []string) {
	want := map[string]map[string]any{
		"Deployment": {"spec.replicas": 1, "spec.strategy.type": "Recreate"},
		"CronJob": {
			"spec.concurrencyPolicy": "Forbid", "spec.jobTemplate.spec.backoffLimit": 0, "spec.timeZone": "Etc/UTC",
			"spec.jobTemplate.spec.template.spec.restartPolicy": "Never",
		},
		"Service": {"spec.publishNotReadyAddresses": true},
	}
	for path, value := range want[o.text("kind")] {
		if got := o.at(strings.Split(path, ".")...); got != value {
			problems = append(problems, fmt.Sprintf("%s is %v, want %v", path, got, value))
		}
	}
	return problems
}

func unsafePod(pod object) (problems []string) {
	want := map[string]any{
		"automountServiceAccountToken": false, "enableServiceLinks": false,
		"securityContext.runAsNonRoot": true, "securityContext.seccompProfile.type": "RuntimeDefault",
		"hostNetwork": nil, "hostPID": nil,
	}
	for path, value := range want {
		if got := pod.sub("spec").at(strings.Split(path, ".")...); got != value {
			problems = append(problems, fmt.Sprintf("%s is %v, want %v", path, got, value))
		}
	}
	for _, c := range slices.Concat(pod.list("spec", "initContainers"), pod.list("spec", "containers")) {
		problems = append(problems, unsafeContainer(c)...)
	}
	return problems
}

func unsafeContainer(c object) (problems []string) {
	context := c.sub("securityContext")
	if context.at("readOnlyRootFilesystem") != true || context.at("allowPrivilegeEscalation") != false ||
		!reflect.DeepEqual(context.at("capabilities", "drop"), []any{"ALL"}) {
		problems = append(problems, fmt.Sprintf("container %s has securityContext %v", c.text("name"), context))
	}
	image := c.text("image")
	if name := image[strings.LastIndexByte(image, '/')+1:]; !strings.Contains(name, ":") || strings.HasSuffix(name, ":latest") {
		problems = append(problems, fmt.Sprintf("container %s has image %q, want a tag or a digest", c.text("name"), image))
	}
	for _, m := range c.list("volumeMounts") {
		if m.at("subPath") != nil {
			problems = append(problems, "a subPath is made by the kubelet and belongs to root: "+m.text("mountPath"))
		}
	}
	return problems
}

// badEnvironment: variables are the program's, each once, and none is a secret.
func badEnvironment(t *testing.T, pod object) (problems []string) {
	all, secrets := variables(t)
	for _, c := range pod.list("spec", "containers") {
		seen := names(c.list("env"), "name")
		if len(slices.Compact(slices.Clone(seen))) != len(seen) {
			problems = append(problems, fmt.Sprintf("a variable comes twice in %v", seen))
		}
		for _, name := range seen {
			if file, ok := strings.CutSuffix(name, "_FILE"); ok && slices.Contains(secrets, file) {
				continue
			}
			if ours := strings.HasPrefix(name, "DOCGAUGE_"); ours && (!slices.Contains(all, name) || slices.Contains(secrets, name)) {
				problems = append(problems, name+" is no variable of the program, or a secret in plain sight")
			}
		}
	}
	return problems
}

// TestSecretsOnlyInSecrets renders a secret of each kind, and looks for it.
func TestSecretsOnlyInSecrets(t *testing.T) {
	marks := map[string]string{
		"apiKey": "adm_mark1", "writeAPIKey": "wr_mark2", "clickhouseDSN": "clickhouse://u:mark3@h/d",
		"notifyURL": "https://mark4.example.com", "notifySecret": "mark5", "pushgatewayURL": "https://u:mark6@push.example.com",
	}
	args := []string{}
	for name, value := range marks {
		args = append(args, "--set-string", "secrets."+name+"="+value)
	}
	for _, mode := range []string{"deployment", "cronjob"} {
		for _, o := range manifests(t, "deployment", append(args, "--set", "mode="+mode)...) {
			text := fmt.Sprint(o)
			if got, want := strings.Count(text, "mark"), 0; o.text("kind") != "Secret" && got != want {
				t.Errorf("%s has a secret: %s", o.id(), text)
			}
			if o.text("kind") == "Secret" && len(o.sub("stringData")) != len(marks) {
				t.Errorf("the Secret has %v", keys(o.sub("stringData")))
			}
		}
	}
}

// TestChecksum: another secret is another pod, another prompt is not.
func TestChecksum(t *testing.T) {
	sum := func(set string) string {
		for _, pod := range pods(manifests(t, "deployment", "--set", set)) {
			return pod.text("metadata", "annotations", "checksum/secret")
		}
		return ""
	}
	before := sum("secrets.apiKey=a_b")
	if before == "" || sum("secrets.apiKey=a_c") == before {
		t.Error("a new secret does not change the pod")
	}
	if sum(`secrets.apiKey=a_b,prompts.files.a\.md=x`) != before {
		t.Error("a new prompt changes the pod")
	}
}

// TestSchedulesSpread: releases without a schedule export at different minutes,
// each always at the same.
func TestSchedulesSpread(t *testing.T) {
	minutes := map[string]bool{}
	for i := range 20 {
		args := []string{"template", fmt.Sprintf("org-%d", i), chart, "--kube-version", kubernetes, "--values", values("cronjob"), "--show-only", "templates/cronjob.yaml"}
		out, said, err := helm(t, args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		schedule := objects(t, out)[0].text("spec", "schedule")
		if !strings.HasSuffix(schedule, " * * * *") {
			t.Fatalf("schedule %q", schedule)
		}
		minutes[schedule] = true
	}
	if len(minutes) < 10 {
		t.Errorf("20 releases export at %v", minutes)
	}
}
