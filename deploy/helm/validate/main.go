// Command validate reads Kubernetes manifests from standard input. It prints the
// name of each manifest that is fine, and fails with a line for each problem: a
// manifest does not decode into the types of its API (unknown and repeated fields
// are errors), breaks a rule of the API server on names and labels, or has pods
// that the Pod Security Standard "restricted" forbids.
//
// It is a separate module, so that docgauge does not depend on Kubernetes. It
// looks at each manifest alone, and knows neither defaults nor admission.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	scheme := runtime.NewScheme()
	known := runtime.NewSchemeBuilder(appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, monitoring.AddToScheme)
	err := known.AddToScheme(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin)); err == nil; {
		var text []byte
		if text, err = documents.Read(); err == nil {
			check(decoder, text)
		}
	}
	if err != io.EOF {
		report("standard input", err)
	}
	if failed {
		os.Exit(1)
	}
}

var failed bool

func report(name string, err error) {
	failed = true
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
}

// check looks at one document.
func check(decoder runtime.Decoder, text []byte) {
	if json, err := yaml.ToJSON(text); err == nil && string(json) == "null" {
		return // only comments
	}
	object, kind, err := decoder.Decode(text, nil, nil)
	if err != nil {
		report(fmt.Sprint(kind), err)
		return
	}
	meta := object.(metav1.Object)
	name := kind.Kind + "/" + meta.GetName()
	if err := errors.Join(rules(object, meta)...); err != nil {
		report(name, err)
		return
	}
	fmt.Println(name)
}

// rules holds an object to what the API server asks of names, labels and
// annotations, here and in its pods.
func rules(object runtime.Object, meta metav1.Object) (problems []error) {
	must := func(where, value string, rule func(string) []string) {
		for _, text := range rule(value) {
			problems = append(problems, fmt.Errorf("%s %q: %s", where, value, text))
		}
	}
	labelled := func(meta metav1.Object) {
		for key, value := range meta.GetLabels() {
			must("label", key, validation.IsQualifiedName)
			must("label "+key, value, validation.IsValidLabelValue)
		}
		for key := range meta.GetAnnotations() {
			must("annotation", key, validation.IsQualifiedName)
		}
	}
	must("name", meta.GetName(), validation.IsDNS1123Subdomain)
	labelled(meta)
	var pod *corev1.PodTemplateSpec
	var keys []string
	switch o := object.(type) {
	case *corev1.Service:
		must("name", o.Name, validation.IsDNS1035Label)
	case *corev1.ConfigMap:
		keys = slices.Collect(maps.Keys(o.Data))
	case *corev1.Secret:
		keys = slices.Collect(maps.Keys(o.StringData))
	case *appsv1.Deployment:
		pod = &o.Spec.Template
	case *batchv1.CronJob:
		// 52 letters leave room for the names of its jobs.
		must("name", o.Name+"-1234567890", validation.IsDNS1123Label)
		pod = &o.Spec.JobTemplate.Spec.Template
	}
	for _, key := range keys {
		must("key", key, validation.IsConfigMapKey)
	}
	if pod == nil {
		return problems
	}
	labelled(pod)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		must("container", c.Name, validation.IsDNS1123Label)
		for _, p := range c.Ports {
			must("port", p.Name, validation.IsValidPortName)
		}
		for _, e := range c.Env {
			must("variable", e.Name, validation.IsEnvVarName)
		}
	}
	for _, v := range pod.Spec.Volumes {
		must("volume", v.Name, validation.IsDNS1123Label)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return append(problems, err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	if !result.Allowed {
		problems = append(problems, fmt.Errorf("restricted: %s", result.ForbiddenDetail()))
	}
	return problems
}
