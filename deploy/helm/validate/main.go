package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks every document of in. It prints a line for each that is fine; the
// error has one for each that is not.
func run(in io.Reader, out io.Writer) error {
	decoder, err := newDecoder()
	if err != nil {
		return err
	}
	var problems []error
	documents := yaml.NewYAMLReader(bufio.NewReader(in))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(problems...)
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(withoutComments(text))) == 0 {
			continue
		}
		name, found := check(decoder, text)
		if len(found) == 0 {
			fmt.Fprintln(out, name)
		}
		for _, err := range found {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
}

// newDecoder knows the kinds that a chart may have; another is an error.
func newDecoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), nil
}

// check decodes one manifest and returns "Kind/name" and what is wrong with it.
func check(decoder runtime.Decoder, text []byte) (name string, problems []error) {
	object, kind, err := decoder.Decode(text, nil, nil)
	if kind != nil {
		name = kind.Kind
	}
	if err != nil {
		return name, []error{err}
	}
	meta, ok := object.(metav1.Object)
	if !ok {
		return name, []error{errors.New("has no metadata")}
	}
	return name + "/" + meta.GetName(), rules(object, meta)
}
