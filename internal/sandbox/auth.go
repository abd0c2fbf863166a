package sandbox

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// scope is what a key may do.
type scope int

const (
	read  scope = 1 << iota // GET
	write                   // everything else
)

func (s scope) String() string {
	if s == read {
		return "read"
	}
	return "write"
}

// keyring holds the keys as digests, so that comparing takes the same time
// whatever was sent.
type keyring []credential

type credential struct {
	digest  [sha256.Size]byte
	scopes  scope
	expired bool
}

func newKeyring(c Config) keyring {
	var keys keyring
	add := func(key string, scopes scope, expired bool) {
		if key != "" {
			keys = append(keys, credential{sha256.Sum256([]byte(key)), scopes, expired})
		}
	}
	add(c.APIKey, read|write, false)
	add(c.ReadOnlyKey, read, false)
	add(c.WriteOnlyKey, write, false)
	add(c.ExpiredKey, 0, true)
	return keys
}

// check refuses Authorization headers that do not allow need: 401 without a
// valid key, 403 without the scope.
func (k keyring) check(headers []string, need scope) error {
	if len(headers) != 1 {
		return unauthorized("Authorization header: want one, Bearer <prefix>_<secret>")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || !keyForm.MatchString(token) {
		return unauthorized("Authorization header: want Bearer <prefix>_<secret>")
	}
	found := k.lookup(token)
	switch {
	case found == nil:
		return unauthorized("API key: is not known")
	case found.expired:
		return unauthorized("API key: has expired")
	case found.scopes&need == 0:
		return fail(http.StatusForbidden, "API key: lacks the %s scope", need)
	}
	return nil
}

func (k keyring) lookup(token string) (found *credential) {
	digest := sha256.Sum256([]byte(token))
	for i := range k {
		if subtle.ConstantTimeCompare(digest[:], k[i].digest[:]) == 1 {
			found = &k[i]
		}
	}
	return found
}

func unauthorized(message string) error {
	return fail(http.StatusUnauthorized, "%s", message).with("Www-Authenticate", "Bearer")
}
