// Package agent keeps agent jobs and works them off (service specification 2.1,
// 3, 4.1 and 4.2). It hides the queue, the journal and the scripted outcomes
// behind four calls: create, message, get, list. [Editor] edits files, [Host]
// opens pull requests.
//
// Invariant: an instruction whose call returned nil is in the journal, and is
// worked on until its end is in the journal too, however often the process is
// killed in between. The journal is the truth about what was accepted.
//
// # States
//
//	from                         to         when
//	-                            active     create
//	active                       completed  the last instruction ended well, with or without a pull request
//	active                       failed     the last instruction failed
//	active                       archived   the last instruction's outcome is archived
//	completed, failed            active     message
//	completed, failed            archived   Config.ArchiveAfter has passed since the end
//	archived                     -          final: a message is refused
//
// # What the specification leaves open
//
// Instructions of one job are worked off one after the other, in the order they
// were accepted; jobs wait in one queue for Config.Workers. A message may be sent
// to an active job: it waits. A failed instruction does not drop the ones behind
// it. The status of a job is active while an instruction of it is left, then the
// outcome of the last one. The pull request is hidden while the job is active,
// as section 3 says, and shown again afterwards, even if the last instruction
// changed nothing or failed.
//
// # Restart
//
// An instruction that was being worked on when the process ended is worked on
// again from the beginning, in a clean copy of what the job had when the
// instruction began; an archived or ended job stays as it was. Once the commit
// is in the journal, only opening the pull request is done again, and a Host
// takes the same branch twice. Stopping by Close is the same as a crash.
//
// The package does not speak HTTP, know keys or limits, or run git.
package agent
