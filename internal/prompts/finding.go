package prompts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is one rule that a file breaks.
type Finding struct {
	// Path is the file below the folder, quoted where it cannot be printed.
	Path string `json:"path"`
	// Line counts from 1; 0 is the file as a whole.
	Line int `json:"line,omitempty"`
	// Text names the thing, the rule and the remedy, on one line.
	Text string `json:"text"`
}

// String is "path:line: text".
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Error is some findings as an error.
type Error []Finding

// Error has one finding a line.
func (e Error) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// sorted orders findings by path and line, and leaves out what is there twice.
func sorted(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(findings)
}
