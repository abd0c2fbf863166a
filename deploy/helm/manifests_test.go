package helm

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// hostPath is the case with a volume that "restricted" forbids, and nothing else.
const hostPath = "cronjob-full"

// TestKubernetes decodes what is rendered into the types of the Kubernetes API
// and of the Prometheus operator, where an unknown field is an error. The types
// are in a module of their own, beside this one.
func TestKubernetes(t *testing.T) {
	watch("validate")
	binary := t.TempDir() + "/validate"
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = "validate"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build in deploy/helm/validate: %v\n%s", err, out)
	}
	validate := func(text string) (string, error) {
		cmd := exec.Command(binary)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, name := range cases(t) {
		text := template(t, chart, "--values", values(name))
		out, err := validate(text)
		if name == hostPath {
			only := `CronJob/acme-docgauge: restricted: restricted volume types (volume "textfile" uses restricted volume type "hostPath")`
			if want := "NetworkPolicy/acme-docgauge\n" + only + "\n"; out != want {
				t.Errorf("%s: %s, want %s", name, out, want)
			}
			continue
		}
		if n := len(objects(t, text)); err != nil || strings.Count(out, "\n") != n {
			t.Errorf("%s: %d manifests, %v\n%s", name, n, err, out)
		}
	}
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

// TestReferences: selectors find the pod, mounts have volumes, volumes have what
// they name, and a monitor's port is the Service's or the container's.
func TestReferences(t *testing.T) {
	for _, name := range cases(t) {
		all := manifests(t, name)
		for _, problem := range slices.Concat(badSelectors(all), badVolumes(all), badPorts(all)) {
			t.Errorf("%s: %s", name, problem)
		}
		if len(pods(all)) != 1 {
			t.Errorf("%s: %d pods", name, len(pods(all)))
		}
	}
}

func badSelectors(all []object) (problems []string) {
	for _, pod := range pods(all) {
		labels := pod.sub("metadata", "labels")
		for kind, path := range map[string][]string{
			"Deployment": {"spec", "selector", "matchLabels"}, "Service": {"spec", "selector"},
			"NetworkPolicy": {"spec", "podSelector", "matchLabels"}, "PodMonitor": {"spec", "selector", "matchLabels"},
		} {
			for _, o := range find(all, kind) {
				if !labels.contains(o.sub(path...)) {
					problems = append(problems, o.id()+" does not select the pod")
				}
			}
		}
	}
	for _, monitor := range find(all, "ServiceMonitor") {
		service := find(all, "Service")
		if len(service) != 1 || !service[0].sub("metadata", "labels").contains(monitor.sub("spec", "selector", "matchLabels")) {
			problems = append(problems, monitor.id()+" does not select the Service")
		}
	}
	return problems
}

func badVolumes(all []object) (problems []string) {
	for id, pod := range pods(all) {
		volumes := names(pod.list("spec", "volumes"), "name")
		if len(slices.Compact(slices.Clone(volumes))) != len(volumes) {
			problems = append(problems, fmt.Sprintf("%s: volumes %v", id, volumes))
		}
		for _, c := range slices.Concat(pod.list("spec", "initContainers"), pod.list("spec", "containers")) {
			paths := names(c.list("volumeMounts"), "mountPath")
			if len(slices.Compact(slices.Clone(paths))) != len(paths) {
				problems = append(problems, fmt.Sprintf("%s: mounts at %v", id, paths))
			}
			for _, mount := range c.list("volumeMounts") {
				if !slices.Contains(volumes, mount.text("name")) {
					problems = append(problems, fmt.Sprintf("%s: mount of %s, volumes are %v", id, mount.text("name"), volumes))
				}
			}
		}
		problems = append(problems, missingSources(id, pod, all)...)
	}
	return problems
}

// outside is what the values files take from elsewhere.
var outside = []string{
	"ConfigMap/company-ca", "ConfigMap/docs-prompts", "PersistentVolumeClaim/globex-state",
	"Secret/acme", "Secret/acme-docgauge", "Secret/acme-web", "Secret/docs-a", "Secret/globex", "Secret/globex-s3",
}

// missingSources looks for what volumes name, among the manifests.
func missingSources(id string, pod object, all []object) (problems []string) {
	for _, v := range pod.list("spec", "volumes") {
		for kind, name := range map[string]string{
			"Secret": v.text("secret", "secretName"), "ConfigMap": v.text("configMap", "name"),
			"PersistentVolumeClaim": v.text("persistentVolumeClaim", "claimName"),
		} {
			wanted := kind + "/" + name
			there := slices.ContainsFunc(all, func(o object) bool { return o.id() == wanted })
			if name != "" && !there && !slices.Contains(outside, wanted) {
				problems = append(problems, fmt.Sprintf("%s: volume %s wants %s, which nobody makes", id, v.text("name"), wanted))
			}
		}
	}
	return problems
}

func badPorts(all []object) (problems []string) {
	var ports []string
	for _, pod := range pods(all) {
		for _, c := range pod.list("spec", "containers") {
			ports = append(ports, names(c.list("ports"), "name")...)
		}
	}
	for _, s := range find(all, "Service") {
		for _, p := range s.list("spec", "ports") {
			if !slices.Contains(ports, p.text("targetPort")) {
				problems = append(problems, fmt.Sprintf("%s: port %s, the pod has %v", s.id(), p.text("targetPort"), ports))
			}
		}
	}
	for kind, field := range map[string]string{"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"} {
		for _, m := range find(all, kind) {
			if got := names(m.list("spec", field), "port"); !slices.Equal(got, ports) {
				problems = append(problems, fmt.Sprintf("%s: ports %v, the pod has %v", m.id(), got, ports))
			}
		}
	}
	return problems
}
