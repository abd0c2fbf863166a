// Package docsapi is the client of the documentation service's REST API. It
// hides HTTP: which request an operation is, how its answer is checked, what each
// failure means, and which failures are tried again.
//
// One file holds one section of the service's specification: job.go 2.1 and 3,
// page.go 2.2 and 2.3 (value.go: paths and counts that are written oddly), agent.go
// 4.1, 4.2 and 4.4, visitors.go 4.3, auth.go 5, outcome.go and error.go 7.
//
// Invariants:
//   - Each attempt is one call of the transport and, over [NewTransport] and
//     [NewWriteTransport], at most one request on the wire, so that a budget
//     placed there counts exactly.
//   - A read that failed for a time is tried again, a write never: neither here
//     nor by net/http.
//   - An answer is the whole answer or an error: a cut body, a missing field or
//     a count that is none never becomes numbers, an answer without its job's id
//     never becomes a job. Two different paths never become one.
//   - The key is in the Authorization header, the prompt in the request's body,
//     and neither is anywhere else: not in errors, logs or printed values. Of a
//     prompt that the service quotes, pieces under 24 bytes can remain.
//   - A redirect is never followed.
//
// A write ends in one of four ways, and its caller asks in this order:
//
//	err == nil        accepted
//	IsNotSent(err)    not sent: no connection, a budget's refusal, a wrong call
//	IsInDoubt(err)    in doubt: it may have been accepted
//	else              not accepted: Permanent as it is, Transient for a time
//
// A write is over with its caller's context until it has a connection; from then
// on only its own deadline ends it.
//
// It does not know of budgets, windows that are due, whether the pages of one
// window agree with each other (package pipeline), or when a job is read (package
// jobs).
package docsapi
