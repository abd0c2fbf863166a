// Package render prints tables, text, JSON, CSV and progress. Output to a terminal fits its
// width; output to a pipe is never cut.
package render

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
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

// assumedWidth is the width of a terminal that does not report one.
const assumedWidth = 80

// width is the maximum width of output to w, in columns: the width of the terminal, or COLUMNS if that is less or w
// is not a terminal. 0 means no limit: output into a pipe is neither cut nor wrapped.
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

// Text writes sentences: lines that are wrapped at the width of the
// terminal, each continued under hanging blanks. Into a pipe a line stays one line.
type Text struct {
	to    io.Writer
	width int
	err   error
}

// NewText returns one that writes to w.
func NewText(w io.Writer) *Text { return &Text{to: w, width: width(w)} }

// Line writes a line; those it is continued on begin with so many blanks.
func (t *Text) Line(hang int, format string, args ...any) {
	text := Printable(fmt.Sprintf(format, args...))
	if t.width > 0 {
		text = strings.Join(Wrap(text, t.width, hang), "\n")
	}
	if _, err := io.WriteString(t.to, text+"\n"); t.err == nil {
		t.err = err
	}
}

// Err returns the first error of the writer.
func (t *Text) Err() error { return t.err }

// leastText is the minimum width of wrapped text: a narrower terminal is a mistake.
const leastText = 20

// Wrap breaks text into lines of at most width columns: at blanks, or inside a word that
// is longer than a line. Those after the first begin with hang blanks; blanks that stand
// before or inside a line stay.
func Wrap(text string, width, hang int) (lines []string) {
	width = max(width, leastText)
	hang = min(hang, width/2)
	text = strings.TrimRight(text, " ")
	for runewidth.StringWidth(text) > width {
		head := runewidth.Truncate(text, width, "")
		next := text[len(head):]
		at := strings.LastIndexByte(head, ' ')
		word, _, _ := strings.Cut(text[at+1:], " ")
		if !strings.HasPrefix(next, " ") && at > len(head)-len(strings.TrimLeft(head, " ")) &&
			runewidth.StringWidth(word) <= width-hang {
			head, next = head[:at], text[at:]
		}
		lines = append(lines, strings.TrimRight(head, " "))
		text = strings.Repeat(" ", hang) + strings.TrimLeft(next, " ")
	}
	return append(lines, text)
}

// Retries is a log handler for a terminal: a request that is tried again is one short line on To, everything else is
// left to Handler. Message is the message of its record, which has the fields attempt, attempts and reason.
type Retries struct {
	slog.Handler
	To      io.Writer
	Message string
}

// Handle writes a record.
func (h Retries) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != h.Message {
		return h.Handler.Handle(ctx, r)
	}
	fields := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		fields[a.Key] = a.Value
		return true
	})
	text := NewText(h.To)
	text.Line(2, "%s, trying again (%d of %s)", fields["reason"], fields["attempt"].Int64()+1, fields["attempts"])
	return text.Err()
}

// WithAttrs keeps the short lines, which have no further fields.
func (h Retries) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Retries{h.Handler.WithAttrs(attrs), h.To, h.Message}
}
