// Package codehost opens pull requests for agent jobs: with GitHub's REST API,
// or locally, where it keeps them and shows them as a page. Both take the same
// branch any number of times and have one open pull request for it.
//
// The package does not run git: whoever makes a [GitHub] gives it a way to push.
package codehost
