//go:build linux

package main

import (
	"net/http"
	"regexp"
	"strconv"
)

// engineError is an exception of the engine: its code and its text as a server
// sends it, "Code: N. DB::Exception: …".
type engineError struct {
	Code int
	Text string
}

func (e *engineError) Error() string { return e.Text }

var codePrefix = regexp.MustCompile(`Code: (\d+)\.`)

// newEngineError reads the code out of text; an error without one has the code
// of an unknown exception.
func newEngineError(text string) *engineError {
	m := codePrefix.FindStringSubmatchIndex(text)
	if m == nil {
		return &engineError{Code: 1002, Text: "Code: 1002. DB::Exception: " + text + " (UNKNOWN_EXCEPTION)"}
	}
	code, err := strconv.Atoi(text[m[2]:m[3]])
	if err != nil {
		code = 1002
	}
	return &engineError{Code: code, Text: text[m[0]:]}
}

var wrongPassword = &engineError{Code: 516, Text: "Code: 516. DB::Exception: default: Authentication failed: " +
	"password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED)"}

// status is the HTTP status a ClickHouse server gives to the common codes.
func (e *engineError) status() int {
	switch e.Code {
	case 516, 192, 193:
		return http.StatusForbidden
	case 62, 6, 27, 33, 36, 53, 117:
		return http.StatusBadRequest
	case 46, 47, 50, 56, 60, 73, 81, 115:
		return http.StatusNotFound
	case 48:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}
