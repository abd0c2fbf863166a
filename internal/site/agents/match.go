package agents

import "strings"

// order says which of several agents in one user agent it is: a coding agent, as in "Claude-User
// (claude-code/2.1.86)", before what it works for, and a library last, as in "Claude-User/1.0
// axios/1.7". Of equals it is the first in the text.
func order(c Class) int {
	switch c {
	case Coding:
		return 0
	case Answers:
		return 1
	case Tool:
		return 3
	}
	return 2
}

// Match returns the agent that a user agent names: a row of the table, the agent of class
// [Unknown] for another one that calls itself automatic, or nil for a person's browser. It takes
// time in proportion to the length, and no memory.
func (t *Table) Match(userAgent string) *Agent {
	var best *Agent
	for i := 0; i < len(userAgent); {
		if !isWord(userAgent[i]) {
			i++
			continue
		}
		start := i
		for i < len(userAgent) && isWord(userAgent[i]) {
			i++
		}
		first := lower(userAgent[start])
		if t.lengths[first]&(1<<(i-start)) == 0 {
			continue
		}
		var word [maxWord]byte
		for j := range i - start {
			word[j] = lower(userAgent[start+j])
		}
		for _, a := range t.byWord[string(word[:i-start])] {
			if (best == nil || a.order < best.order) && a.at(userAgent, start) {
				best = a
			}
		}
	}
	if best == nil && automatic(userAgent) {
		return unknown
	}
	return best
}

// at reports whether the token is at a place of text where a word begins. Part of a URL or of an
// address is no name: FooCrawler (+https://example.com/GPTBot) is another agent.
func (a *Agent) at(text string, start int) bool {
	end := start + len(a.Token)
	if end > len(text) || !strings.EqualFold(text[start:end], a.Token) || a.leading && start > 0 ||
		start > 0 && strings.IndexByte("/.@", text[start-1]) >= 0 {
		return false
	}
	return end == len(text) || !isWord(text[end]) && text[end] != '@'
}

// automatic reports whether a user agent says that no person is behind it: it is empty, has a URL,
// or one of the words bot, crawl and spider. The word bot ends a word or a part of it (FooBot/1.0,
// foo-bots, bot_x, BotFoo do; Abbott, BOTTOM do not); Cubot is a maker of phones.
func automatic(text string) bool {
	blank := true
	for i := 0; i < len(text); i++ {
		if kinds[text[i]]&begins == 0 {
			blank = blank && kinds[text[i]]&nothing != 0
			continue
		}
		blank = false
		switch rest := text[i:]; {
		case has(rest, "://"), has(rest, "www."), has(rest, "crawl"), has(rest, "spider"):
			return true
		case has(rest, "cubot") && (i == 0 || !isLetter(text[i-1])):
			i += len("cubot") - 1
		case has(rest, "bot"):
			end := len("bot")
			if end < len(rest) && lower(rest[end]) == 's' && isLower(rest[end]) == isLower(rest[end-1]) {
				end++
			}
			if end == len(rest) || !isLetter(rest[end]) || isLower(rest[end-1]) && !isLower(rest[end]) {
				return true
			}
		}
	}
	return blank
}

// What a byte can be.
const (
	inWord  = 1 << iota // part of words: a token beside one is part of a longer word
	begins              // the beginning of what automatic looks for
	nothing             // part of a user agent that is as good as empty
)

var kinds = func() (k [256]byte) {
	for c := range k {
		if c := byte(c); isLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '_' {
			k[c] |= inWord
		}
	}
	for _, c := range []byte(":wWcCsSbB") {
		k[c] |= begins
	}
	for _, c := range []byte(" -\t") {
		k[c] |= nothing
	}
	return k
}()

// has reports whether text begins with a lower-case word, in any case.
func has(text, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if lower(text[i]) != word[i] {
			return false
		}
	}
	return true
}

// firstWord returns the word that text begins with.
func firstWord(text string) string {
	n := 0
	for n < len(text) && isWord(text[n]) {
		n++
	}
	return text[:n]
}

func isWord(c byte) bool { return kinds[c]&inWord != 0 }

func isLetter(c byte) bool { return lower(c) >= 'a' && lower(c) <= 'z' }

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// printable reports whether text is of visible ASCII characters and blanks.
func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
