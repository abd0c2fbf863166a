package prompts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/format"
)

// maxPathBytes is how much of a page's path reaches a prompt.
const maxPathBytes = 200

// bom may begin a file: editors on Windows write it.
const bom = "\uFEFF"

// newlines replaces all kinds of line ends by \n.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// trimBlank removes blank lines from the beginning of a text and white space from
// its end. It returns how many lines it removed at the beginning.
func trimBlank(s string) (string, int) {
	for removed := 0; ; removed++ {
		line, rest, more := strings.Cut(s, "\n")
		if !more || strings.Trim(line, " \t") != "" {
			return strings.TrimRight(s, " \t\n"), removed
		}
		s = rest
	}
}

// lineAt returns the line of byte i of s, counted from 1.
func lineAt(s string, i int) int { return 1 + strings.Count(s[:i], "\n") }

// checkText looks for characters that are not allowed in a prompt: invisible ones,
// and those that make a reviewer see another text than is sent. It returns the line
// of the first one and the problem, or 0.
func checkText(s string) (line int, problem string) {
	count := 0
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return lineAt(s, i), "a byte that is not UTF-8: save the file as UTF-8"
		}
		if reason := forbidden(r); reason != "" {
			if count++; count == 1 {
				line, problem = lineAt(s, i), fmt.Sprintf("%U %s: remove it", r, reason)
			}
		}
	}
	if count > 1 {
		problem += fmt.Sprintf(" and %d more like it", count-1)
	}
	return line, problem
}

// forbidden returns the reason why a character is not allowed in a prompt, or "".
func forbidden(r rune) string {
	switch {
	case r == '\n', r == '\t':
		return ""
	case unicode.IsControl(r):
		return "is a control character, and only tab and newline are allowed"
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return "changes the order in which text is shown, so that a reviewer sees another text than is sent"
	case r >= 0xE0000 && r <= 0xE007F:
		return "is invisible, so that a reviewer sees another text than is sent"
	}
	return ""
}

// checkLine returns the problem of a name of one line (a path, a title), or "".
func checkLine(s string) string {
	switch {
	case len(s) > maxNameBytes:
		return fmt.Sprintf("%d bytes long: want at most %d", len(s), maxNameBytes)
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

// printable is a path or value as messages show it: in quotes and cut if it would
// not print on one line.
func printable(s string) string {
	if checkLine(s) == "" {
		return s
	}
	return quote(s)
}

// quote writes foreign text (a page's path) as data: in double quotes, on one line,
// with "…" after maxPathBytes. Quotes, backslashes, backquotes and invisible
// characters are escaped, so it can end neither the quotes nor a code span around
// them.
func quote(s string) string {
	more := ""
	if end := maxPathBytes; len(s) > end {
		for end > maxPathBytes-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end-- // not inside a character
		}
		s, more = s[:end], "…"
	}
	return strings.ReplaceAll(strconv.Quote(s), "`", `\x60`) + more
}

// word returns a class or an audience: anything but one plain word is "other".
func word(s string) string {
	if plainWords.MatchString(s) {
		return s
	}
	return "other"
}

var plainWords = regexp.MustCompile(`^[a-z]{1,20}$`)

// shorten is a message that may quote a template, on one line.
func shorten(message string) string {
	return format.Cut(strings.Map(func(r rune) rune {
		if forbidden(r) != "" || r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, message), 400)
}

// join lists names in a message, the first 20 of them.
func join(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
