package render

import (
	"cmp"
	"errors"
	"io"
	"slices"
)

// ErrReported is the error of a command that has already reported everything.
var ErrReported = errors.New("failed")

// The results of a finding.
const (
	OK   = "ok"
	Skip = "skip"
	Warn = "warn"
	Fail = "FAIL"
)

// Finding is one thing that was tried; its JSON keys are stable.
type Finding struct {
	Result string `json:"result"`
	// Check is configuration, state, api, sink clickhouse and so on.
	Check string `json:"check"`
	// Project is set where a project was requested.
	Project string `json:"project,omitempty"`
	Detail  string `json:"detail"`
	// Cause is the error of a request that failed.
	Cause error `json:"-"`
}

// Findings are what a check has found. Each is printed as it comes, or all as JSON at the end.
type Findings struct {
	All []Finding `json:"findings"`

	to      io.Writer
	asJSON  bool
	printed error
}

// NewFindings returns none so far; they are printed on w.
func NewFindings(w io.Writer, asJSON bool) *Findings {
	return &Findings{All: []Finding{}, to: w, asJSON: asJSON}
}

// Found adds a finding: a description, or the error.
func (c *Findings) Found(check, detail string, err error) {
	f := Finding{Result: OK, Check: check, Detail: detail}
	if err != nil {
		f.Result, f.Detail = Fail, err.Error()
	}
	c.Add(f)
}

// Add adds a finding.
func (c *Findings) Add(f Finding) {
	c.All = append(c.All, f)
	if c.asJSON {
		return
	}
	const nameColumn = 15
	detail := f.Detail
	if f.Project != "" {
		detail = f.Project + ": " + detail
	}
	text := NewText(c.to)
	text.Line(6+nameColumn+2, "%-4s  %-*s  %s", f.Result, nameColumn, f.Check, detail)
	c.printed = cmp.Or(c.printed, text.Err())
}

// Failed reports whether a finding is a failure.
func (c *Findings) Failed() bool {
	return slices.ContainsFunc(c.All, func(f Finding) bool { return f.Result == Fail })
}

// Err is the first error of printing.
func (c *Findings) Err() error { return c.printed }

// End prints the findings as JSON, if those are wanted, and returns an error if one of them failed.
func (c *Findings) End() error {
	if c.asJSON {
		c.printed = JSON(c.to, c)
	}
	if c.printed == nil && c.Failed() {
		return ErrReported
	}
	return c.printed
}
