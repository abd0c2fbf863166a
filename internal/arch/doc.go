// Package arch tests what must never import what, that each third-party library belongs to
// one package, that only commands are main packages, and that go.mod has nothing that breaks
// "go install …@version". Imports of tests are free. It also tests the steps of make check:
// every one runs, and every test runs in one of them.
package arch
