package sinks

import (
	"fmt"
	"strings"
)

// Explained is an error of a server: a hint, if there is one, before the first line of what
// was said.
type Explained struct {
	Hint, Said string
	Err        error
}

func (e Explained) Error() string {
	const most = 300 // bytes
	said, _, _ := strings.Cut(e.Said, "\n")
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "…"
	}
	if e.Hint == "" {
		return said
	}
	return fmt.Sprintf("%s (%s)", e.Hint, said)
}

func (e Explained) Unwrap() error { return e.Err }
