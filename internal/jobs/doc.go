// Package jobs is the prompt queue: it submits each prompt file as one agent job,
// once, and follows the job to its end.
//
// # Invariant
//
// The service's create is not idempotent, and there is no list to look a job up
// in. So what may have reached the service is never sent again by itself, and what
// did not reach it is never forgotten: whenever the process ends, each prompt is
// either not sent, or its job's id is in the journal, or it is unknown and a person
// is told what to do. No step depends on a clock being right.
//
// # A create
//
//  1. the prompt may go: its own conditions, its place in the line, the caps
//  2. its text is rendered
//  3. the intent is durable: submitting          (crash before: nothing happened)
//  4. one POST                                   (crash from here: the next Start makes it unknown)
//  5. what came of it is durable                 (crash before: as 4; after: it is followed)
//
// A message to a job that is completed and has follow-ups left goes the same way:
// the intent is the mark that it is being sent, on a job that stays active. Where 3
// fails nothing is sent; where 5 fails nothing else is sent until it is there.
// One POST is under way at a time. It is finished when the process is asked to end.
//
// # States
//
// A prompt without a job in the journal is pending, invalid or expired: that
// follows from its file. A job is made by an intent, or by the operator.
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
//	submitting  401, 403                                      pending, and the queue pauses  queue
//	submitting  other 4xx                                     rejected     queue
//	submitting  anything else, or the process ended           unknown      queue, Start
//	active      read: at work, or a status nobody knows       active       queue
//	active      read: completed, follow-ups left              active, sending  queue
//	active      read: completed                               completed    queue
//	active      read: failed, archived                        failed, archived  queue
//	active      not found for ten minutes                     lost         queue
//	active      given up                                      cancelled    operator
//	sending     accepted; not sent, 429 and so on             active       queue
//	sending     answered with another job's id                unknown      queue
//	sending     other 4xx                                     completed, with a reason  queue
//	sending     anything else, or the process ended           unknown      queue, Start
//	unknown     it has the id ID                              active       operator
//	unknown     not accepted, send it again                   cancelled, and a new attempt pending  operator
//	unknown     on_unknown: resubmit, once                    cancelled, and a new attempt pending  queue
//	unknown     drop                                          cancelled    operator
//	any end     retry                                         as it was, and a new attempt pending  operator
//
// An id is the service's within a project, and of one job: the journal checks that in
// the transaction that enters it. A create that is answered with the id of another job
// is in doubt, as nobody can tell whether the service made a second one; the other
// goes on. It is not sent again by itself, whatever on_unknown says, because the
// service would answer alike.
//
// What a call came to is entered also where somebody moved the job on meanwhile: a
// job that was ended keeps its end, with what the service did beside it; any other
// goes where the answer leads.
//
// A message in doubt that is sent again, or left out, leads back to active. A
// cancelled job that was unknown keeps its mark InDoubt: the service may have it.
// A crash between two transitions leaves the former; a read is made again, a time
// that was waited for is waited for again.
//
// A job that is completed right after it took a message may not have begun on it:
// it counts as completed once a read found it at work since, or two reads did so
// at least 30 s later.
//
// # Renamed
//
// A prompt without an id is its path, so a file that is moved would be sent again.
// It looks renamed, and is held, where its text (Prompt.Digest) belongs to a job whose
// file does not have it any more: nothing is at that path, or another text is, or one
// that is wrong or settles. The job was sent or may have been, counted as done, or was
// held or cancelled; one that never began, expired or was rejected holds nothing.
// Several rules follow:
//
//   - A copy whose original is there is a new prompt. With an id a prompt is the same
//     wherever it lies, and is never held for this.
//   - One with a schedule is not held: its time decides, and no firing comes twice.
//   - Of a template the text is the one in the file, not what it was filled in with.
//   - What depends on a held prompt waits; it goes on when that is completed, also as
//     done.
//   - Of several files with the text all are held, as nobody can tell which is the
//     renamed one. Of several former paths the reason names the one with the same file
//     name, else the newest. Once the operator has decided, and while that file is
//     there, its former path holds nothing any more: others are copies of it.
//   - One that waits (refused for a time, or to be sent again) is held too if its file
//     was replaced by such a text meanwhile; once released it is not held again.
//   - After the whole folder was moved all are held. Moved back, they are what they were.
//
// # What holds up
//
// One prompt: its times, a dependency, another job of its concurrency key, its
// template, a job of its own that has not ended. One project: a refusal for a
// time, of the service or of the budget below the client. All: the caps, which
// count intents that are not known to have been refused, over 24 hours, and jobs
// that may be at work, the unknown among them; and a pause: the key was refused
// (until it changes), two in a row are in doubt (until the service answers a read,
// and an hour has passed or the operator says so), the operator, or a state without
// any job (see NewState). Reads go on in every pause.
//
// What the operator decides never lets more through than the caps: nothing but an
// intent counts anew, and only the queue makes one. Two processes that change one
// job at once, the queue and the operator, do not overwrite each other: the journal
// takes a change only of the version it was made from, and the outcome of a call is
// then made up anew from the job as it is.
//
// # What it does not do
//
// It does not find or check files (package prompts), keep anything itself
// (package state, through Journal), count requests, or deliver notifications
// (package notify).
package jobs
