// Package runner accepts agent jobs and works on them (service specification 2.1, 3, 4.1 and
// 4.2). It hides the queue, the journal, git and the command behind
// create, message, get and list. An [Editor] edits files and a [Host] opens pull requests.
//
// Invariant: an instruction whose call returned nil is in the journal, and is worked on until
// its end is in the journal too, however often the process is killed in between. The journal
// is the truth about the accepted instructions.
//
// # States
//
//	from                         to         when
//	-                            active     create
//	active                       completed  the last instruction ended well, with or without a pull request
//	active                       failed     the last instruction failed
//	active                       archived   the last instruction's outcome is archived
//	completed, failed            active     message
//	completed, failed            archived   Options.ArchiveAfter has passed since the end
//	archived                     -          final: a message is refused
//
// # What the specification leaves open
//
// The instructions of a job are worked on one after the other, in the order they were
// accepted; jobs wait in one queue for Options.Workers. A message to an active job waits. A
// failed instruction does not drop those behind it. A job is active while an instruction of it
// is left, then has the outcome of the last one. The pull request is hidden while the job is
// active, as section 3 says, and shown again afterwards, even if the last instruction changed
// nothing or failed.
//
// # Restart
//
// An instruction that was interrupted by the end of the process is worked on again from the
// beginning, in a clean copy of the job's state before it; an archived or ended job does not
// change. Once the commit is in the journal, only opening the pull request is repeated, and a
// Host accepts the same branch twice. Stopping by Close is the same as a crash.
//
// # Repositories
//
// [Repo] is the Editor of a local git repository: each instruction gets a worktree on the
// branch of its job, a command edits files there, and the result is a commit on the branch.
//
// Invariant: the working tree, the index, the current branch and every branch that is not a
// job's stay unchanged, whatever the command does with its files and however it ends. After
// Edit the job's branch is at the returned Head, or, after an error, where it was before; a
// branch without commits is deleted. Worktrees are removed after each instruction, and by
// OpenRepo after a crash.
//
// Git 2.31 or newer runs as a separate process: without the GIT_* variables of this process,
// without hooks, signatures, prompts and pagers, and never with an argument made from a prompt;
// where it has the token, without any configuration (remote.go). The command belongs to the
// operator and has the operator's permissions: the worktree is its directory, not a jail.
//
// The package does not serve HTTP and knows no keys or limits.
package runner
