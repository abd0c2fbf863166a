// Package sandbox is a local implementation of the service that docgauge talks
// to (its specification whole), for trials, demos, tests and self-hosting. It
// hides where events come from (synthetic traffic or an event log), how distinct
// visitors are counted and how agent jobs are worked off behind one
// [http.Handler].
//
// Invariant: every number is the size of an exact set of visitors. An event has
// a time and an arrival; an answer counts the events whose time lies in the
// window and that arrived up to the beginning of the current minute of
// Config.Now. Hence all pages of one window read within a minute agree, a
// window of past days changes only by late data, latecomers, drift or lines
// appended to the event log, and the open day grows every minute. Event times are
// kept in whole seconds: an event happens at the beginning of its second.
//
// Which events arrived is decided by Config.Now alone; only the latency fault
// waits for real. Memory is bounded by caches of days and answers, except for an
// event log, which is held whole at 16 bytes an event.
//
// # Agent jobs
//
// Create answers 201, message and read 200, each with all fields of a job.
// Package agent has the states and what happens where the specification is
// silent; this package adds to that:
//   - reading is GET /v2/agent/{projectId}/job/{id}, and there is no list;
//   - prompt is a string that is not blank, of at most 64 KiB: else 400 or 413;
//   - the content type must be application/json: else 415;
//   - a message to an archived job is refused with 409;
//   - a job of another project is not found: 404;
//   - an hourly limit counts every POST with a good key to a project that
//     exists, also one that is refused later, but not one refused with 429;
//   - the page of a pull request kept here, /pr/{n}, needs no key: whoever can
//     reach the sandbox can read it, under the names it is known by.
//
// A POST is accepted when its instruction is in the journal; faults strike
// before or after that, never in between.
//
// It does not serve TLS or compression and does not print anything. Beside the
// journal, the pull requests and the worktrees of agent jobs it writes nothing to
// Config.DataDir, and those not before the first job or Repo.
package sandbox
