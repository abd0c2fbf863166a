// Package arch is a test that holds the import table: which package of ours may
// import which, and which one package owns each third-party library. It also
// holds that only commands are main packages, that no package is named for being
// a drawer, and that go.mod has nothing that breaks "go install …@version".
//
// It looks at what a package imports when it is built for this platform without
// tags; what tests import is free.
package arch
