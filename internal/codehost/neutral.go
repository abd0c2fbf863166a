package codehost

import (
	"regexp"
	"strings"
	"unicode"
)

var (
	// closing are words that close an issue, before a reference; command is one of GitLab's at the start of a line.
	closing = regexp.MustCompile(`(?i)\b([cfri])((?:los|ix|esolv|eopen|mplement)[a-z]*:?\s+(?:issues?\s+)?\S*[-/#!]\S)`)
	command = regexp.MustCompile(`(?m)^(\s*)/`)
	// named are the names that Markdown has for @, # and !.
	named = regexp.MustCompile(`&((?:commat|num|excl);)`)
	// skipped are words for which hosts and their CI leave out the checks of a commit.
	skipped = regexp.MustCompile(`(?i)(\[)([a-z -]*\bskip\b[a-z -]*\]|no[ -]ci\])|(\*NO)(_CI\*)|(skip-)(checks:)`)
)

// Neutral returns text in which nothing mentions people, refers to issues or closes them, is a tag of HTML, loads an
// image, is a command to a code host or skips its checks: an invisible space is in the way. Characters that change the
// direction of text are left out.
func Neutral(text string) string {
	const space = "\u200b"
	text = named.ReplaceAllString(text, "&"+space+"$1")
	text = command.ReplaceAllString(closing.ReplaceAllString(text, "${1}"+space+"$2"), "${1}"+space+"/")
	text = skipped.ReplaceAllString(text, "${1}${3}${5}"+space+"${2}${4}${6}")
	var out strings.Builder
	for i, c := range text {
		if unicode.Is(unicode.Bidi_Control, c) {
			continue
		}
		out.WriteRune(c)
		if rest := text[i+len(string(c)):]; strings.ContainsRune("@#!<", c) && rest != "" &&
			!strings.ContainsRune(" \t\r\n"+string(c), rune(rest[0])) {
			out.WriteString(space)
		}
	}
	return out.String()
}
