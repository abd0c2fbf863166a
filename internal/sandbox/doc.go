// Package sandbox is a local implementation of the service that docgauge talks to, for trials,
// demos, tests and self-hosting. It implements the whole specification behind one
// [http.Handler].
//
// Invariant: every number is the size of an exact set of visitors. An event has a time and an
// arrival; an answer counts the events whose time is in the window and that arrived up to the
// beginning of the current minute of Config.Now. Hence all pages of one window read within a
// minute agree, a window of past days changes only by late data, latecomers, drift, merges or
// lines appended to the event log, and the open day grows every minute. Event times are whole
// seconds: an event happens at the beginning of its second. Config.Now alone decides which
// events have arrived; only the injected delays really wait. The caches of days and answers
// have a fixed size; an event log is kept in memory, at 24 bytes an event.
//
// The service itself is in internal/site: its HTTP interface in package api, exact counting in
// package facts, agent jobs in package runner. Package traffic makes up the readers and counts them. Here are the
// answers about them (answers.go, reports.go), faults (faults.go, hour.go), the site as a repository (sitefiles.go),
// agents by words in a prompt (script.go, pretend.go, jobs.go), pull requests with a fate (pulls.go, merges.go) of
// a simulated code host (package codehost/fake), and pages for people (pages.go, html.go). New (new.go) puts them
// together.
//
// # Agent jobs
//
// Create answers 201, message and read 200, each with all fields of a job. Package runner
// documents the states and the behaviour that the specification leaves open; this package adds:
//   - reading is GET /v2/agent/{project}/job/{id}, and jobs cannot be listed;
//   - prompt is a string that is not blank, of at most 64 KiB: else 400 or 413;
//   - the content type must be application/json: else 415;
//   - a message to an archived job is refused with 409;
//   - a job of another project is not found: 404;
//   - an hourly limit counts every POST with a good key to a project that exists, also one
//     that is refused later, but not one refused with 429;
//   - the pages for people, / for browsers, /{owner}/{repo}/pull/{n} and /pr/{n}, need no key:
//     everyone who can reach the sandbox by one of its host names can read them and press the
//     buttons of pull requests, but no page of another site can. Only people at this machine
//     see prompts, and the key if it is the well-known one. Programs read pull requests below
//     /github.
//
// A POST is accepted when its instruction is in the journal; faults strike before or after
// that, never in between.
//
// # Merges
//
// With Pulls.Effect, the synthetic readers of the pages that a merge changed become more or
// fewer from the UTC day of the merge on, see [Effect]: a truth to compare estimates with. They
// do so in the minute after the merge; a merge that is dated back changes past days.
//
// The package does not serve TLS or compression and does not print anything. It writes only the
// journal, the pull requests and the worktrees of agent jobs to Config.DataDir, and nothing
// before the first job or repository.
package sandbox
