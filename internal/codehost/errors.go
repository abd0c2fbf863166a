package codehost

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the kind of a failed request.
type Kind int

// The kinds.
const (
	// Transient: the host cannot be reached or fails; later it may answer.
	Transient Kind = iota
	// Hidden: the host does not show it to this token (it is deleted, renamed or forbidden), or the
	// link belongs to no host that is asked. All other kinds concern the whole host.
	Hidden
	// NoToken: the host has no token, or it cannot be read.
	NoToken
	// Unauthorized: the token is expired, revoked or wrong.
	Unauthorized
	// Limited: the quota of the token is used up, or the host wants fewer requests for a while.
	// Error.Until says how long.
	Limited
	// Paced: our own limit. Nothing was asked; Error.Until says when there is room.
	Paced
)

// Error is why a host was not asked or did not answer. Its text is for people: what, why,
// remedy. It contains no token, answer or header.
type Error struct {
	Kind Kind
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
