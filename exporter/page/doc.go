// Package page is the status page: one HTML document that shows what the
// snapshot holds, for people.
//
// It hides how numbers become words, charts and calendars. Its invariants: a
// page is whole or an error, never half; it is made once for each snapshot, so
// a view costs nothing; it asks for nothing else, from us or from anybody, and
// runs no script; whatever comes from the API or a sink is text; and its size
// is bounded by the number of projects and windows configured.
//
// It reads no state and sends no request. Ages ("3 min ago") count from the
// moment of the snapshot, which the page names.
package page
