// Package report makes one HTML file of what an archive says: how many readers,
// how many of them AI, which pages rise and fall, what the agent did.
//
// It hides how values become words, drawings and tables. Its invariants: the
// file asks for nothing else, from anybody, and says so in a content security
// policy that allows its own style and script alone, by their hashes; without the
// script every number and drawing is there, the script only adds what a pointer
// does; whatever an archive or the service wrote is text; no unique visitors are
// added up, except that human + AI − total is how many were both; and memory is
// bounded by the number of windows and the pages kept, not by the rows read.
//
// It opens no archive and no state, and does not know what is due.
package report
