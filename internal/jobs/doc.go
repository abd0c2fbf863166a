// Package jobs is the prompt queue: it submits each prompt file as one agent job, once,
// and follows the job to its end.
//
// # Invariant
//
// The service's create is not idempotent, and the service has no list of jobs. So a prompt that
// may have reached the service is never sent again automatically, and one that did not
// reach it is never forgotten: whenever the process ends, each prompt is either not
// sent, or its job's id is in the journal, or it is unknown and a person sees the remedy. No
// step relies on a correct clock.
//
// # A create
//
// submit chooses the next prompt and renders its text. send makes the intent durable, sends one
// POST, and makes the outcome durable; its comments describe the effect of a crash at each step.
// The same holds for a follow-up of a completed job, whose intent is a mark on the job. A stop
// waits for the answer for at most 25 s; without one the job is unknown.
//
// # States
//
// A prompt without a job in the journal is pending, invalid or expired: its file says
// which. A job is made by an intent, or by the operator. Sending is an active job whose
// follow-up is being sent.
//
//	from        event                                         to           by
//	-           intent                                        submitting   queue
//	-           hold, cancel                                  held, cancelled  operator
//	-           new state, skip                               completed    queue
//	-, pending  it looks renamed                              held         queue
//	pending     intent                                        submitting   queue
//	pending     expires is over; a later firing is due        expired      queue
//	pending     hold, cancel                                  held, cancelled  operator
//	held        release, cancel                               pending, cancelled  operator
//	held        it looks renamed, and counts as done          completed    operator
//	submitting  accepted                                      active       queue
//	submitting  accepted, under the id of another job         unknown      queue
//	submitting  not sent; 429, 425; 402, 404, 405, 407        pending, with a time  queue
//	submitting  401                                           pending, and the queue pauses  queue
//	submitting  403                                           pending, and its project waits, or the queue pauses  queue
//	submitting  other 4xx                                     rejected     queue
//	submitting  anything else, or the process ended           unknown      queue, Recover
//	active      read: at work, or an unfamiliar status        active       queue
//	active      read: completed, follow-ups left              active, sending  queue
//	active      read: completed                               completed    queue
//	active      read: failed, archived                        failed, archived  queue
//	active      not found for ten minutes                     lost         queue
//	active      given up                                      cancelled    operator
//	sending     accepted; not sent, 429 and so on             active       queue
//	sending     answered with another job's id                unknown      queue
//	sending     other 4xx                                     completed, with a reason  queue
//	sending     anything else, or the process ended           unknown      queue, Recover
//	unknown     it has the id ID                              active       operator
//	unknown     not accepted, send it again                   cancelled, and a new try pending  operator
//	unknown     on_unknown: resubmit, once                    cancelled, and a new try pending  queue
//	unknown     drop                                          cancelled    operator
//	any end     retry                                         unchanged, and a new try pending  operator
//
// An id belongs to one job of a project; the journal checks that in the transaction that
// enters it. A create that is answered with the id of another job is in doubt, because
// the service may or may not have made a second one. The other job continues. The create
// is not sent again automatically, even with on_unknown: resubmit, because the answer would be
// the same.
//
// The outcome of a call is entered even if the job was changed at the same time: a job
// that was ended keeps its end, with the outcome beside it; any other job moves to the state that
// follows from the answer.
//
// A follow-up in doubt that is sent again, or left out, leads back to active. A
// cancelled job that was unknown keeps its mark InDoubt: the service may have it. A
// crash between two transitions leaves the earlier state; reads and waits are repeated.
//
// A job that is completed right after it accepted a follow-up may not have begun on it.
// It counts as completed once a read found it at work since, or two reads did so at
// least 30 s later.
//
// # Renamed
//
// A prompt without an id is identified by its path, so a file that is moved would be sent
// again. It looks renamed, and is held, if its text (Prompt.Digest) belongs to a job
// whose file no longer has it: the file is gone, has another text, is invalid, or has
// just changed. The job was sent or may have been, counted as done, or was held or
// cancelled; a job that never began, expired or was rejected holds nothing. Several rules
// follow:
//
//   - A copy is a new prompt as long as its original exists. A prompt with an id is the
//     same under any path, and is never held for this.
//   - A prompt with a schedule is not held: its time decides, and no firing comes twice.
//   - The text of a template is the one in the file, not the rendered one.
//   - Prompts that depend on a held one wait, and continue when that counts as done.
//   - Of several files with the text all are held, because any may be the renamed one. Of
//     several former paths the reason names the one with the same file name, else the
//     newest. Once the operator has decided about a file, and while it exists, further
//     files with the text are copies.
//   - A prompt that waits (refused for a time, or to be sent again) is held too if its
//     file was replaced by such a text; once released it is not held again.
//   - After the whole folder was moved, all prompts are held. Moved back, they have their
//     former states.
//
// # Waiting
//
// The constants of Why are the reasons why a prompt waits. The caps count the intents of 24 hours
// that are not known to have been refused, and the jobs that may be at work, including the
// unknown. The queue pauses when the key was refused (401, or 403 without an accepted send
// since the key changed; until it changes), when two
// consecutive sends are in doubt (until the service answers a read, and an hour has passed
// or the operator releases it), when the operator pauses it, and for a state without any job
// (see NewState). Reads continue in every pause.
//
// No decision of the operator exceeds the caps: only an intent counts anew, and only the
// queue makes one. The queue and the operator may change one job at once, in two
// processes, without overwriting each other: the journal accepts a change only of the
// version it was prepared from, and the outcome of a call is then prepared anew.
//
// # Limits
//
// The package does not find or check files (package prompts), store anything itself
// (package state, through jobStore), count requests, or deliver events (package events).
package jobs
