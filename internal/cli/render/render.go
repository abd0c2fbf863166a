// Package render prints tables, text, JSON, CSV and progress. Output to a terminal fits its
// width; output to a pipe is never cut.
package render

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// JSON writes v as indented JSON.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// CSV writes rows as RFC 4180 has it, with the line ends of Unix. It alters nothing, not
// even cells that a spreadsheet would take for a formula.
func CSV(w io.Writer, rows [][]string) error { return csv.NewWriter(w).WriteAll(rows) }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// assumedWidth is that of a terminal without a known width.
const assumedWidth = 80

// width is the maximum width of output to w, in columns: that of the terminal, or COLUMNS if that
// is less or w is not a terminal. 0 means no limit: output into a pipe is neither cut nor wrapped.
func width(w io.Writer) int {
	asked, _ := strconv.Atoi(os.Getenv("COLUMNS"))
	if !IsTerminal(w) {
		return max(asked, 0)
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width <= 0 {
		width = assumedWidth
	}
	if asked > 0 {
		return min(width, asked)
	}
	return width
}

// Printable returns text that is safe on a terminal: on one line, and without
// characters that cannot be seen or that a terminal obeys.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
