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
	// maxMessage caps what is shown of the service's own words, in characters.
	maxMessage = 300
	// minSecret is the shortest secret part that is also redacted on its own.
	minSecret = 6
)

// The names of keys in Attempt.
const (
	KeyAdmin = "admin"
	KeyWrite = "write"
)

// credential is one of the keys: its name, the variable that users know it by,
// and how to get it. It holds no key.
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

// writeCredential is the key for POSTs: the admin key where there is none.
func writeCredential(get func() string, admin credential) credential {
	if get == nil {
		return admin
	}
	return credential{KeyWrite, writeKeyVariable, get}
}

// current returns the key to send now (specification, section 5).
func (c credential) current() (string, error) {
	key := c.get()
	prefix, secret, _ := strings.Cut(key, "_")
	if prefix == "" || secret == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New(c.variable + ": want <prefix>_<secret>, printable ASCII without spaces, as the API keys page of the dashboard shows it")
	}
	return key, nil
}

// CheckKey says whether a key can be sent; the error does not quote it.
func CheckKey(key string) error {
	_, err := adminCredential(StaticKey(key)).current()
	return err
}

// tokenShape finds what may be a key, this one or another: a Bearer token, or a
// prefix, an underscore and at least 16 characters.
var tokenShape = regexp.MustCompile(`(?i)\bbearer\s+[^\s"'<>,;]+|[A-Za-z0-9]+_[A-Za-z0-9_\-]{16,}`)

// withoutKey returns text of others without key and without anything that looks
// like one, on one line, printable. Unprintable characters go first: they could
// hide a key from the search.
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

func capped(text string) string {
	n := 0
	for i := range text {
		if n++; n == maxMessage {
			if rest := text[i:]; len([]rune(rest)) > 1 {
				return text[:i] + "…"
			}
		}
	}
	return text
}
