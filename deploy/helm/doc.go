// Package helm holds the chart docgauge against the program and against
// Kubernetes, as far as that can be done without a cluster: what it renders is
// compared with testdata/golden, decoded into the types of the Kubernetes API,
// held to the Pod Security Standard "restricted", searched for broken references,
// and its pods are run by hand, with volumes as the kubelet would make them.
//
// It has no code of its own. It does not start a cluster, pull an image or know
// what admission, a network plugin or a storage driver does.
package helm
