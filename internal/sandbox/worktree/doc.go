// Package worktree edits a local git repository for agent jobs: each
// instruction gets a worktree of its own on the branch of its job, has a command
// edit files there, and leaves what changed as a commit on the branch. It hides
// git and the command behind [agent.Editor].
//
// Invariant: the working tree, the index, the current branch and every branch
// that is not a job's stay as they are, whatever the command does with its
// files and however it ends. After Edit the job's branch is at the returned
// Head, or, after an error, where it was before; a branch without a commit of
// its own is deleted. Worktrees are removed after each instruction, and by Open
// where a crash left them.
//
// Git runs as a process of its own, 2.31 or newer: with an environment that has
// nothing of GIT_* from outside, without hooks, signatures, prompts and pagers,
// and never with an argument made of a prompt. The command is the operator's
// and may do what he may: the worktree is its directory, not a jail.
package worktree
