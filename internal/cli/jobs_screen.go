package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"unicode"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"golang.org/x/term"
)

// Control sequences of terminals, as those of the last forty years know them. In a
// frame the cursor is hidden and lines do not wrap.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	noWrap     = "\x1b[?7l"
	wrap       = "\x1b[?7h"
	eraseBelow = "\x1b[J"
	eraseRight = "\x1b[K"
)

// screen keeps a few lines at the bottom of a terminal, and draws them anew in
// their place. Each frame is one write that hides the cursor and shows it again:
// whatever ends the process between two of them, the terminal is as it was.
type screen struct {
	out  io.Writer
	size func() (width, height int)

	mu    sync.Mutex
	lines []string // as they are on the terminal
}

// drawsOn reports whether w is a terminal that draws in place.
func drawsOn(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
}

// sizeOf returns the size of a terminal, or what most have where it does not say.
func sizeOf(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		width, height, _ = term.GetSize(int(f.Fd()))
	}
	if width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// draw puts lines in the place of those before, as many as fit.
func (s *screen) draw(lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frame("", lines)
}

// clear takes the lines away.
func (s *screen) clear() error { return s.draw(nil) }

// Write puts text above the lines: it scrolls up, they stay.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.frame(string(p), s.lines); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *screen) frame(above string, lines []string) error {
	width, height := s.size()
	kept := make([]string, 0, len(lines))
	for _, line := range lines[:min(len(lines), max(height-1, 1))] {
		kept = append(kept, cut(line, width))
	}
	var b strings.Builder
	b.WriteString(hideCursor + noWrap + "\r")
	if n := min(s.rows(width), height-1); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", n)
	}
	if above != "" {
		b.WriteString(eraseBelow + wrap + above + noWrap)
	}
	for _, line := range kept {
		b.WriteString(line + eraseRight + "\n")
	}
	b.WriteString(eraseBelow + wrap + showCursor)
	s.lines = kept
	_, err := io.WriteString(s.out, b.String())
	return err
}

// rows is how many rows of the terminal the lines take: more than there are lines
// where it has become narrower since.
func (s *screen) rows(width int) (n int) {
	for _, line := range s.lines {
		n += max(1, (twwidth.Width(line)+width-1)/width)
	}
	return n
}

// plain returns text fit for a terminal: on one line, and without characters that
// cannot be seen or that a terminal obeys.
func plain(text string) string {
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

// cut returns text that is at most so many columns wide, plain.
func cut(text string, width int) string {
	text = plain(text)
	if twwidth.Width(text) <= width {
		return text
	}
	const more = "…"
	room := width - twwidth.Width(more)
	for i, r := range text {
		if room -= twwidth.Width(string(r)); room < 0 {
			return text[:i] + more
		}
	}
	return text
}

// fill returns text that is exactly so many columns wide.
func fill(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", max(0, width-twwidth.Width(text)))
}

// jobTable is table for what comes from files and the service. Lines end with their
// last word: blanks would make lines of their own on a narrow terminal.
func jobTable(w io.Writer, header []string, rows [][]string, numeric ...int) error {
	for _, row := range rows {
		for i := range row {
			row[i] = plain(row[i])
		}
	}
	var text strings.Builder
	if err := table(&text, header, rows, numeric...); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
