// Package pulls watches the pull requests of the jobs: [Follower] decides which are due, reads
// them at their code hosts (package codehost), finds the pages that a merge touched, and stores
// what it learned.
package pulls
