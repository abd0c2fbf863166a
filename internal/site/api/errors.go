package api

import (
	"errors"
	"fmt"
	"net/http"
)

// Refusal is an error as the service answers it; its JSON is the error body.
type Refusal struct {
	Message string `json:"error"`
	Status  int    `json:"-"`
	header  http.Header
}

func (r *Refusal) Error() string { return r.Message }

// Fail returns the answer with a status and a message that names the thing and the rule.
func Fail(status int, format string, args ...any) *Refusal {
	return &Refusal{Message: fmt.Sprintf(format, args...), Status: status}
}

// With sets a header of the answer.
func (r *Refusal) With(name, value string) *Refusal {
	r.header = http.Header{name: {value}}
	return r
}

// UnknownProject is the refusal of a request for a project that is not served, or not for the key.
func UnknownProject(name string) error {
	return Fail(http.StatusNotFound, "project %.140q: not found with this API key", name)
}

// ErrDropped closes the connection instead of sending an answer.
var ErrDropped = errors.New("reply dropped")

// RefusalOf returns the answer for an error and sets its headers.
func (s *Service) RefusalOf(err error, header http.Header) *Refusal {
	refused, ok := errors.AsType[*Refusal](err)
	if !ok {
		s.Logger.Error("request not answered", "error", err)
		refused = Fail(http.StatusInternalServerError, "%v", err)
	}
	for name, values := range refused.header {
		header[name] = values
	}
	return refused
}
