// Package docsapi is the client of the documentation service's REST API, reads
// only so far. It hides HTTP: which request an operation is, how its answer is
// checked, what each failure means, and which failures are tried again.
//
// One file holds one section of the service's specification: visitors.go 4.3,
// page.go 2.2 and 2.3, auth.go 5, outcome.go and error.go 7.
//
// Invariants:
//   - Each attempt is one call of Config.Transport and, over [NewTransport], at
//     most one request on the wire, so that a budget placed there counts exactly.
//   - An answer is the whole answer or an error: a cut body, a missing field or
//     a count that is none never becomes numbers.
//   - The key is in the Authorization header and nowhere else: not in errors,
//     logs or printed values.
//   - A redirect is never followed.
//
// It does not know of budgets, windows that are due, or whether the pages of one
// window agree with each other (package pipeline).
package docsapi
