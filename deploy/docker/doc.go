// Package docker holds the Dockerfile against its rules, without an engine: its
// build stage's commands are run on a copy of the tree as .dockerignore leaves
// it, its second stage is laid out as a directory, and what it starts is run in
// there as the image's user.
//
// It has no code of its own. It knows the instructions that this one Dockerfile
// uses, and it does not pull the base images.
package docker
