package codehost

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what a failed request means.
type Kind int

// The kinds.
const (
	// Transient: the host cannot be reached or fails; later it may answer.
	Transient Kind = iota
	// Elsewhere: the link belongs to no host that is asked.
	Elsewhere
	// NoToken: there is no token for the host, or it cannot be read.
	NoToken
	// Unauthorized: the token is expired, revoked or wrong.
	Unauthorized
	// Forbidden: the token must not read it.
	Forbidden
	// NotFound: it is deleted or renamed, or the token must not know of it.
	NotFound
	// Moved: the host redirects elsewhere, which is never followed.
	Moved
	// RateLimited: the quota of the token is used up. Error.Until says how long.
	RateLimited
	// Throttled: the host wants fewer requests for a while (a secondary rate limit).
	Throttled
	// Paced: our own limit. Nothing was asked; Error.Until says when there is room.
	Paced
)

// OfHost reports whether the whole host has the problem, and not one pull request.
func (k Kind) OfHost() bool {
	switch k {
	case Transient, NoToken, Unauthorized, RateLimited, Throttled, Paced:
		return true
	}
	return false
}

// Error is why a host was not asked or did not answer. Its text is for people: what, why,
// remedy. No token, no answer and no header is in it.
type Error struct {
	Kind Kind
	Host string // github or gitlab; empty for Elsewhere
	// Until is before when the host wants no other request, zero if it did not say.
	Until time.Time
	text  string
	cause error
}

// Error is one sentence.
func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %v", e.text, e.cause)
	}
	return e.text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of an error of this package, Transient for any other.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Transient
}
