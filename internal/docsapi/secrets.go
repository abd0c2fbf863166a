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
	// maxMessage is the longest message, in characters.
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
	_, err := credential{KeyAdmin, keyVariable, StaticKey(key)}.current()
	return err
}

// tokenShape finds what may be a key, this one or another: a Bearer token, or a
// prefix, an underscore and at least 16 characters.
var tokenShape = regexp.MustCompile(`(?i)\bbearer\s+[^\s"'<>,;]+|[A-Za-z0-9]+_[A-Za-z0-9_\-]{16,}`)

// withoutKey returns foreign text without key and without anything that looks like a key, on one
// line. Unprintable characters are removed first, because they could hide a key.
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

// withoutPrompt replaces the parts of text that quote prompt. Both are on one line, as oneLine makes
// it.
func withoutPrompt(text, prompt string) string {
	size := min(minQuote, len(prompt))
	if size < minSecret {
		return text
	}
	pieces := map[string]bool{}
	for i := range len(prompt) - size + 1 {
		pieces[prompt[i:i+size]] = true
	}
	var out []byte
	end := 0 // of the last quote
	for i := range len(text) {
		switch isQuote := i+size <= len(text) && pieces[text[i:i+size]]; {
		case isQuote && (i > end || end == 0):
			out = append(out, quotedPrompt...)
			end = i + size
		case isQuote:
			end = i + size
		case i >= end:
			out = append(out, text[i])
		}
	}
	return strings.ToValidUTF8(string(out), "")
}

// oneLine returns text without unprintable characters.
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
