// Package worktree edits a local git repository for agent jobs: each
// instruction gets a worktree of its own on the branch of its job, a command edits
// files there, and the result is a commit on the branch. It hides git and the
// command behind [agent.Editor].
//
// Invariant: the working tree, the index, the current branch and every branch
// that is not a job's stay as they are, whatever the command does with its
// files and however it ends. After Edit the job's branch is at the returned
// Head, or, after an error, where it was before; a branch without a commit of
// its own is deleted. Worktrees are removed after each instruction, and by Open
// after a crash.
//
// Git 2.31 or newer runs as a separate process: without the GIT_* variables of
// this process, without hooks, signatures, prompts and pagers, and never with an
// argument made from a prompt; where it has the token, without any configuration
// (remote.go). The command belongs to the operator and has the
// operator's permissions: the worktree is its directory, not a jail.
package worktree
