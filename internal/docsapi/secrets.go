package docsapi

import (
	"errors"
	"regexp"
	"strings"
	"unicode"
)

const (
	keyVariable      = "DOCGAUGE_API_KEY"
	writeKeyVariable = "DOCGAUGE_WRITE_API_KEY"
	redacted         = "[redacted]"
	quotedPrompt     = "[prompt]"
	// maxMessage caps what is shown of the service's own words, in characters.
	maxMessage = 300
	// minSecret is the shortest secret part that is also redacted on its own.
	minSecret = 6
	// minQuote is the shortest piece of a prompt, in bytes, that counts as a quote of
	// it: shorter pieces are common words.
	minQuote = 24
)

// The names of keys in Attempt.
const (
	KeyAdmin = "admin"
	KeyWrite = "write"
)

// credential is one of the keys: its name, its variable, and how to get it. It
// does not contain the key.
type credential struct {
	name, variable string
	get            func() string
}

func adminCredential(get func() string) credential {
	if get == nil {
		get = StaticKey("")
	}
	return credential{KeyAdmin, keyVariable, get}
}

// current returns the key to send now (specification, section 5).
func (c credential) current() (string, error) {
	key := c.get()
	prefix, secret, _ := strings.Cut(key, "_")
	if prefix == "" || secret == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New(c.variable + ": want <prefix>_<secret>, printable ASCII without spaces, " +
			"as the API keys page of the dashboard shows it")
	}
	return key, nil
}

// CheckKey reports why key cannot be sent, or nil; the error does not quote it.
func CheckKey(key string) error {
	_, err := adminCredential(StaticKey(key)).current()
	return err
}

// tokenShape finds what may be a key, this one or another: a Bearer token, or a
// prefix, an underscore and at least 16 characters.
var tokenShape = regexp.MustCompile(`(?i)\bbearer\s+[^\s"'<>,;]+|[A-Za-z0-9]+_[A-Za-z0-9_\-]{16,}`)

// withoutKey returns foreign text without key and without anything that looks like
// a key, on one line, printable. Unprintable characters are removed first, because
// they could hide a key from the search.
func withoutKey(text, key string) string {
	text = oneLine(text)
	if key != "" {
		text = strings.ReplaceAll(text, key, redacted)
		if _, secret, _ := strings.Cut(key, "_"); len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return tokenShape.ReplaceAllString(text, redacted)
}

// withoutPrompt replaces what text repeats of prompt: services quote what they
// refuse. Both are on one line, as oneLine makes it.
func withoutPrompt(text, prompt string) string {
	size := min(minQuote, len(prompt))
	if size < minSecret || len(text) < size {
		return text
	}
	pieces := make(map[string]bool, len(text)) // of text: whether prompt has them
	for i := range len(text) - size + 1 {
		pieces[text[i:i+size]] = false
	}
	for i := range len(prompt) - size + 1 {
		if _, ok := pieces[prompt[i:i+size]]; ok {
			pieces[prompt[i:i+size]] = true
		}
	}
	var out strings.Builder
	end, found := 0, false // of the last piece
	for i := range len(text) - size + 1 {
		if !pieces[text[i:i+size]] {
			continue
		}
		if i > end || !found {
			out.WriteString(text[end:i] + quotedPrompt)
		}
		end, found = i+size, true
	}
	return strings.ToValidUTF8(out.String()+text[end:], "")
}

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.Map(printable, text), unicode.IsSpace), " ")
}

func printable(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.IsGraphic(r) && r != unicode.ReplacementChar:
		return r
	}
	return -1
}

// capped returns text with at most maxMessage characters.
func capped(text string) string {
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage-1]) + "…"
	}
	return text
}
