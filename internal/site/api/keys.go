package api

import (
	"context"
	"crypto/sha256"
	"net/http"
	"regexp"
	"strings"
)

// Scope is the set of requests that a key allows.
type Scope int

// The scopes.
const (
	Read  Scope = 1 << iota // GET
	Write                   // everything else
)

// Credential is what a key allows.
type Credential struct {
	// ID names the key without revealing it.
	ID     string
	Scopes Scope
	// Project is the one that the key is for; empty: every project.
	Project string
	Expired bool
}

// Keyring holds keys by their digests, so that the time of a look-up reveals nothing about a key.
type Keyring map[[sha256.Size]byte]Credential

// KeyForm is the form of API keys.
var KeyForm = regexp.MustCompile(`^[A-Za-z0-9]+_[!-~]+$`)

// Add adds a key.
func (k Keyring) Add(key string, c Credential) { k[sha256.Sum256([]byte(key))] = c }

// Find returns what the key with this digest allows; false without one.
func (k Keyring) Find(_ context.Context, digest [sha256.Size]byte) (Credential, bool, error) {
	c, found := k[digest]
	return c, found, nil
}

// authenticate refuses a request whose Authorization header does not allow need: 401 without a
// valid key, 403 without the scope.
func (s *Service) authenticate(c *Call, need Scope) error {
	unauthorized := func(message string) error {
		return Fail(http.StatusUnauthorized, "%s", message).With("Www-Authenticate", "Bearer")
	}
	headers := c.Header.Values("Authorization")
	if len(headers) != 1 {
		return unauthorized("Authorization header: want one, Bearer <prefix>_<secret>")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || !KeyForm.MatchString(token) {
		return unauthorized("Authorization header: want Bearer <prefix>_<secret>")
	}
	found, ok, err := s.FindKey(c.Context(), sha256.Sum256([]byte(token)))
	switch {
	case err != nil:
		return err
	case !ok:
		return unauthorized("API key: is not known")
	case found.Expired:
		return unauthorized("API key: has expired")
	case found.Scopes&need == 0:
		name := map[Scope]string{Read: "read", Write: "write"}[need]
		return Fail(http.StatusForbidden, "API key: lacks the %s scope", name)
	}
	c.Key = found
	return nil
}
