// Command validate reads Kubernetes manifests from standard input and says
// which do not decode into the types of their API, with unknown and repeated
// fields as errors, break a rule on names and labels that the API server would
// hold them to, or have pods that the Pod Security Standard "restricted" forbids.
//
// It is a module of its own, so that docgauge does not depend on Kubernetes. It
// knows each manifest alone: whether they fit each other is for the tests of the
// chart. It does not know defaults, admission or what a server of another
// version takes.
package main
