package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// cronJobName is shorter than a label: the names of its jobs get 11 more.
const cronJobName = 52

// rules holds an object to what the API server asks of names, labels and
// annotations, here and in its pods.
func rules(object runtime.Object, meta metav1.Object) []error {
	problems := named("metadata.name", meta.GetName(), validation.IsDNS1123Subdomain)
	problems = append(problems, labelled("metadata", meta)...)
	switch o := object.(type) {
	case *corev1.Service:
		problems = append(problems, named("metadata.name", o.Name, validation.IsDNS1035Label)...)
	case *corev1.ConfigMap:
		problems = append(problems, keyed(o.Data)...)
	case *corev1.Secret:
		problems = append(problems, keyed(o.StringData)...)
	case *batchv1.CronJob:
		if len(o.Name) > cronJobName {
			problems = append(problems, fmt.Errorf("metadata.name: %d letters, a CronJob may have %d", len(o.Name), cronJobName))
		}
	}
	if template := podOf(object); template != nil {
		problems = append(problems, pod(template)...)
		problems = append(problems, unrestricted(template)...)
	}
	return problems
}

func pod(template *corev1.PodTemplateSpec) []error {
	problems := labelled("template.metadata", &template.ObjectMeta)
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		problems = append(problems, named("container", c.Name, validation.IsDNS1123Label)...)
		for _, p := range c.Ports {
			problems = append(problems, named("port", p.Name, validation.IsValidPortName)...)
		}
		for _, e := range c.Env {
			problems = append(problems, named("env", e.Name, validation.IsEnvVarName)...)
		}
	}
	for _, v := range template.Spec.Volumes {
		problems = append(problems, named("volume", v.Name, validation.IsDNS1123Label)...)
	}
	return problems
}

func labelled(where string, meta metav1.Object) (problems []error) {
	for _, key := range slices.Sorted(maps.Keys(meta.GetLabels())) {
		problems = append(problems, named(where+".labels", key, validation.IsQualifiedName)...)
		problems = append(problems, named(where+".labels."+key, meta.GetLabels()[key], validation.IsValidLabelValue)...)
	}
	for _, key := range slices.Sorted(maps.Keys(meta.GetAnnotations())) {
		problems = append(problems, named(where+".annotations", key, validation.IsQualifiedName)...)
	}
	return problems
}

func keyed(data map[string]string) (problems []error) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		problems = append(problems, named("data", key, validation.IsConfigMapKey)...)
	}
	return problems
}

func named(where, value string, rule func(string) []string) (problems []error) {
	for _, text := range rule(value) {
		problems = append(problems, fmt.Errorf("%s %q: %s", where, value, text))
	}
	return problems
}

// withoutComments leaves out lines that begin with # and document marks.
func withoutComments(text []byte) []byte {
	var kept [][]byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("#")) && !bytes.HasPrefix(line, []byte("---")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, nil)
}
