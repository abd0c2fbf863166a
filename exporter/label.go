package exporter

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxLabel is the most bytes a label value has.
const MaxLabel = 300

// hashDigits is how many hexadecimal digits tell altered values apart.
const hashDigits = 8

// Label returns s as a label value: itself where it is valid UTF-8 of at most
// MaxLabel bytes. What it has to alter (invalid bytes become U+FFFD, the end is
// cut off) ends in "…" and a hash of s, so that two values that differ stay two
// series. The same s always gives the same value.
//
// Newlines, quotes, backslashes and control characters stay: the exposition
// formats escape what they must, and readers take the rest.
func Label(s string) string {
	if len(s) <= MaxLabel && utf8.ValidString(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	mark := "…" + hex.EncodeToString(sum[:])[:hashDigits]
	return cut(strings.ToValidUTF8(s, "\uFFFD"), MaxLabel-len(mark)) + mark
}

// cut returns the longest beginning of s, which is valid UTF-8, of whole
// characters and at most n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
