package main

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// podOf returns the pod template of an object, nil if it makes no pods.
func podOf(object runtime.Object) *corev1.PodTemplateSpec {
	switch o := object.(type) {
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	}
	return nil
}

// unrestricted says what the Pod Security Standard "restricted" forbids in a
// pod, as the admission controller of Kubernetes does.
func unrestricted(template *corev1.PodTemplateSpec) []error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return []error{err}
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
	if result.Allowed {
		return nil
	}
	return []error{fmt.Errorf("restricted: %w", errors.New(result.ForbiddenDetail()))}
}
