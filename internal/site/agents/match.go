package agents

import "strings"

// rank orders the agents in one user agent: a coding agent, as in "Claude-User (claude-code/2.1.86)",
// before the agent that it works for, and a library last, as in "Claude-User/1.0 axios/1.7". Crawlers
// of the public list come after the whole table. Of equals the first in the text wins.
func (a *Agent) rank() int {
	switch {
	case a.Listed:
		return 4
	case a.Class == Coding:
		return 0
	case a.Class == Answers:
		return 1
	case a.Class == Tool:
		return 3
	}
	return 2
}

// Match returns the agent that a user agent names: a row of the table or a crawler of the public list,
// an agent of class [Unknown] for another program, or nil for a person's browser. It takes time in
// proportion to the length, and no memory.
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
	switch {
	case best != nil:
		return best
	case automatic(userAgent), saysWork(userAgent):
		return unknown
	case !beginsAsBrowser(userAgent):
		return unlisted
	}
	return nil
}

// at reports whether the token is at a place of text where a word begins. Part of a URL or of an
// address is no name: FooCrawler (+https://example.com/GPTBot) is another agent.
func (a *Agent) at(text string, start int) bool {
	end := start + len(a.Token)
	if end > len(text) || !strings.EqualFold(text[start:end], a.Token) || a.leading && start > 0 ||
		start > 0 && !beginsName(text[:start]) {
		return false
	}
	return end == len(text) || !isWord(text[end]) && text[end] != '@'
}

// beginsName reports whether a name can come after before. A slash before it follows a plain word, as in
// Agent/AmazonBuyForMe.
func beginsName(before string) bool {
	last := len(before) - 1
	switch before[last] {
	case '.', '@':
		return false
	case '/':
		i := last
		for i > 0 && (isWord(before[i-1]) || before[i-1] == '_') {
			i--
		}
		return i < last && (i == 0 || strings.IndexByte("/.:@", before[i-1]) < 0)
	}
	return true
}

// textBrowsers are the words with which the user agents of text browsers and a few small ones begin.
var textBrowsers = []string{"dillo", "edbrowse", "elinks", "emacs", "ibrowse", "links", "lynx", "ncsa_mosaic",
	"netsurf", "w3m"}

// beginsAsBrowser reports whether a user agent begins as browsers do: with Mozilla/, Opera/ or a text browser.
func beginsAsBrowser(text string) bool {
	if has(text, "mozilla/") || has(text, "opera/") {
		return true
	}
	for _, name := range textBrowsers {
		if has(text, name) && (len(text) == len(name) || text[len(name)] == '/' || text[len(name)] == ' ') {
			return true
		}
	}
	return false
}

// automatic reports whether a user agent says that no person is behind it: it is empty, has a URL, a host
// or an e-mail address, one of the words bot, crawl and spider, or a name where browsers have
// none: after "compatible;", and in "(KHTML, like Gecko; Name)". The word bot ends a word or a part of it
// (FooBot/1.0, foo-bots, bot_x, BotFoo do; Abbott, BOTTOM do not); Cubot is a maker of phones.
func automatic(text string) bool {
	blank := true
	for i := 0; i < len(text); i++ {
		if kinds[text[i]]&begins == 0 {
			blank = blank && kinds[text[i]]&nothing != 0
			continue
		}
		blank = false
		switch rest := text[i:]; {
		case text[i] == '@' && isHost(rest[1:]), has(rest, "://"), has(rest, "www."),
			has(rest, "crawl"), has(rest, "spider"):
			return true
		case text[i] == '.' && i > 0 && isWord(text[i-1]) && endsHost(rest[1:]):
			return true
		case has(rest, "khtml, like gecko"):
			if end := len("khtml, like gecko"); end < len(rest) && (rest[end] == ';' || rest[end] == ' ') {
				return true
			}
		case has(rest, "compatible;"):
			name := strings.TrimLeft(rest[len("compatible;"):], " ")
			if name != "" && !has(name, "msie") && !has(name, "konqueror") && !has(name, "u;") {
				return true
			}
		case has(rest, "cubot") && (i == 0 || !isLetter(text[i-1])):
			i += len("cubot") - 1
		case has(rest, "bot"):
			end := len("bot")
			if end < len(rest) && lower(rest[end]) == 's' && isLower(rest[end]) == isLower(rest[end-1]) {
				end++
			}
			if endsPart(rest, end) {
				return true
			}
		}
	}
	return blank
}

// works are words for what programs do with pages, and people do not.
var works = []string{"archiver", "automation", "checker", "classifier", "diagnostics", "fetcher", "harvester", "indexer",
	"inspector", "measurement", "monitoring", "observatory", "prerender", "scraper", "synthetics", "transcoder",
	"validator"}

// saysWork reports whether a user agent has one of works at the end of a word or of a part of it: Example_checker and
// ExampleChecker/1.0 do.
func saysWork(text string) bool {
	for i := range len(text) {
		if kinds[text[i]]&beginsWork == 0 {
			continue
		}
		for _, work := range works {
			if has(text[i:], work) && endsPart(text, i+len(work)) {
				return true
			}
		}
	}
	return false
}

// endsPart reports whether a word, or a part of one that begins with a capital, ends before text[end].
func endsPart(text string, end int) bool {
	return end == len(text) || !isLetter(text[end]) || isLower(text[end-1]) && !isLower(text[end])
}

// isHost reports whether text begins with the name of a host.
func isHost(text string) bool {
	n := len(firstWord(text))
	return n > 0 && n+1 < len(text) && text[n] == '.' && isLetter(text[n+1])
}

// endsHost reports whether text begins with one of the commonest ends of hosts.
func endsHost(text string) bool {
	n := len(firstWord(text[:min(len(text), len("com")+1)]))
	for _, end := range [...]string{"co", "com", "io", "net", "org"} {
		if n == len(end) && has(text, end) {
			return true
		}
	}
	return false
}

// What a byte can be.
const (
	inWord     = 1 << iota // part of words: a token beside one is part of a longer word
	begins                 // the beginning of what automatic looks for
	nothing                // part of a user agent that is as good as empty
	beginsWork             // the beginning of one of works
)

var kinds = func() (k [256]byte) {
	for c := range k {
		if c := byte(c); isLetter(c) || c >= '0' && c <= '9' || c == '-' {
			k[c] |= inWord
		}
	}
	for _, c := range []byte("@:.wWcCsSbBkK") {
		k[c] |= begins
	}
	for _, work := range works {
		k[work[0]] |= beginsWork
		k[work[0]-'a'+'A'] |= beginsWork
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
