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
//	active                       archived   the last instruction's result asks for it
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
// An instruction whose result asks for it is tried again later, a bounded number of times (maxRetries).
// Until then its job is active and waits, with RetryAt, and the workers have other jobs.
//
// # Restart
//
// An instruction that was interrupted by the end of the process is worked on again from the
// beginning, in a clean copy of the job's state before it; an archived or ended job does not
// change. It fails where that was interrupted too often (maxWorked). Once the commit is in the journal,
// only opening the pull request is repeated, and a Host accepts the same branch twice. Stopping by Close
// is the same as a crash.
//
// # Repositories
//
// [Repo] is the Editor of a git repository. Each instruction gets a copy of the files at the newest
// commit of its job, with a repository of its own around them (workplace.go); a command edits there,
// and what the files are when it has ended becomes one commit on the branch of the job, whatever the
// command said, committed or did to its own repository. A check of the operator's decides whether the
// change is proposed; some changes are refused (TestRefusals).
//
// Invariant: the repository gets objects, and at the end of a good instruction its job's branch is moved
// in one step. Nothing else of it changes, however the command or this process ends, and the command
// meets neither its configuration nor its branches. What a crash leaves in the directory of jobs is
// removed by OpenRepo; an instruction that was committed but whose end was not written is done again.
// What the journal says was committed is on the disk by then. The repository that OpenRepo makes for a URL is
// made again if it is damaged; then the commits of jobs are fetched from the URL (TestCopyHeals).
//
// A preset is an agent whose report of its work is read from its output: cost, tokens, the session that
// the next instruction continues, and errors. A report never makes a change good or bad; without a change
// it decides whether the agent ended well.
//
// Git 2.31 or newer runs as a separate process: without the GIT_* variables of this process,
// without hooks, signatures, prompts and pagers, and never with an argument made from a prompt;
// where it has the token, without any configuration (remote.go).
//
// Git on the files of a job runs in a separate jail, or without a Jail in a process without configuration; what
// it makes is read outside as objects alone, and enters the repository after it passed (TestJailedGit).
//
// With a [Jail] the command can reach its job's files, the system's programs and the hosts that are
// allowed, and nothing else (TestJailKeeps). Without one it has the operator's permissions.
//
// The package does not serve HTTP and knows no keys or limits.
package runner
