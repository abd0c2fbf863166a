// Package look is what our HTML pages have in common: how a number, a time and a
// window are written for people, how a series becomes the path of a drawing, the
// colours and the plain parts of the style, and the name at the head.
//
// Its invariants: a number that is not known is a dash, never 0; the days of a
// window are named as people do, with the last one in it, and the exact form is
// half-open, as everywhere; whatever a word was made of is text, not markup.
//
// It makes no page, reads nothing and knows no clock.
package htmlview
