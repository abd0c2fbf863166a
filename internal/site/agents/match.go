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
		if i-start > maxWord || t.lengths[first]&(1<<(i-start)) == 0 {
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

// at reports whether the token is at a place of text where a word begins.
func (a *Agent) at(text string, start int) bool {
	end := start + len(a.Token)
	return end <= len(text) && strings.EqualFold(text[start:end], a.Token) &&
		(end == len(text) || !isWord(text[end])) && (!a.leading || start == 0)
}

// automatic reports whether a user agent says that no person is behind it: it is empty, has a URL,
// or one of the words bot, crawl and spider. The word bot ends a word or a part of it (FooBot/1.0,
// foo-bots, bot_x, BotFoo do; Abbott, Bottom do not); Cubot is a maker of phones.
func automatic(text string) bool {
	blank := true
	for i := 0; i < len(text); i++ {
		c := lower(text[i])
		blank = blank && (c == ' ' || c == '-' || c == '\t')
		switch c {
		case ':':
			if has(text, i, "://") {
				return true
			}
		case 'w':
			if has(text, i, "www.") {
				return true
			}
		case 'c':
			if has(text, i, "crawl") {
				return true
			}
			if has(text, i, "cubot") && (i == 0 || !isLetter(text[i-1])) {
				i += len("cubot") - 1
			}
		case 's':
			if has(text, i, "spider") {
				return true
			}
		case 'b':
			if has(text, i, "bot") {
				end := i + len("bot")
				if end < len(text) && lower(text[end]) == 's' {
					end++
				}
				if end == len(text) || text[end] < 'a' || text[end] > 'z' {
					return true
				}
			}
		}
	}
	return blank
}

// has reports whether text has a lower-case word at i, in any case.
func has(text string, i int, word string) bool {
	if len(text)-i < len(word) {
		return false
	}
	for j := range len(word) {
		if lower(text[i+j]) != word[j] {
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

// isWord reports whether c is part of words: a token beside one is part of a longer word.
func isWord(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func isLetter(c byte) bool { return lower(c) >= 'a' && lower(c) <= 'z' }

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
