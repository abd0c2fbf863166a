package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

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
