package prompts

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxPathBytes is the most of a page's path that reaches a prompt.
const MaxPathBytes = 200

// quote writes text of others (a page's path) as data: in double quotes, on one
// line, at most MaxPathBytes of it and "…". Quotes, backslashes, backquotes and
// everything that cannot be seen are escaped, so it ends neither the quotes nor
// a code span around them.
func quote(s string) string {
	more := ""
	if len(s) > MaxPathBytes {
		s, more = cut(s, MaxPathBytes), "…"
	}
	return strings.ReplaceAll(strconv.Quote(s), "`", `\x60`) + more
}

// cut returns the longest beginning of s that is at most n bytes and does not
// end inside a character.
func cut(s string, n int) string {
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n]
}
