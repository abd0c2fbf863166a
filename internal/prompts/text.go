package prompts

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// normal gives text one kind of line end.
var normal = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// bom may begin a file; editors on Windows put it there.
const bom = "\uFEFF"

// tidy takes blank lines from the beginning of a text and white space from its
// end. It returns how many lines went from the beginning.
func tidy(s string) (string, int) {
	cut := 0
	for {
		line, rest, more := strings.Cut(s, "\n")
		if !more || strings.Trim(line, " \t") != "" {
			return strings.TrimRight(s, " \t\n"), cut
		}
		s, cut = rest, cut+1
	}
}

// checkText finds characters that no prompt has: those that cannot be seen, and
// those by which a reviewer sees another text than is sent. It returns the line
// of the first, counted from 1, and what is wrong, or 0.
func checkText(s string) (line int, problem string) {
	var first rune
	var at, count int
	for i, r := range s {
		if r == utf8.RuneError && invalid(s[i:]) {
			return lineAt(s, i), "a byte that is not UTF-8: save the file as UTF-8"
		}
		if hidden(r) == "" {
			continue
		}
		if count++; count == 1 {
			first, at = r, i
		}
	}
	switch count {
	case 0:
		return 0, ""
	case 1:
		return lineAt(s, at), fmt.Sprintf("%U %s: remove it", first, hidden(first))
	}
	return lineAt(s, at), fmt.Sprintf("%U %s: remove it and %d more like it", first, hidden(first), count-1)
}

func invalid(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size == 1
}

func lineAt(s string, i int) int { return 1 + strings.Count(s[:i], "\n") }

// hidden says why a character is in no prompt, or nothing.
func hidden(r rune) string {
	switch {
	case r == '\n', r == '\t':
		return ""
	case unicode.IsControl(r):
		return "is a control character, and only tab and newline are allowed"
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return "changes the order in which text is shown, so that a reviewer sees another text than is sent"
	case r >= 0xE0000 && r <= 0xE007F:
		return "cannot be seen, so that a reviewer sees another text than is sent"
	}
	return ""
}

// checkLine says what is wrong with a name of one line (a path, a title), or nothing.
func checkLine(s string) string {
	switch {
	case len(s) > MaxNameBytes:
		return fmt.Sprintf("%d bytes long: want at most %d", len(s), MaxNameBytes)
	case !utf8.ValidString(s):
		return "not UTF-8: write it in UTF-8"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Sprintf("%U cannot be printed: remove it", r)
		}
	}
	return ""
}

// shown is a path or value as messages show it: quoted where it is not plain, and cut.
func shown(s string) string {
	if checkLine(s) == "" {
		return s
	}
	return quote(s)
}
