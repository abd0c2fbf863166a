package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/render"
)

// Prompt asks questions on a terminal.
func Prompt(a *console.Console, terminal *os.File, ask func(p *Prompter) error) error {
	p, err := newPrompter(terminal)
	if err != nil {
		return err
	}
	if err = errors.Join(ask(p), p.restore()); err != nil {
		fmt.Fprintln(a.Err) // ends the line of the question
	}
	return err
}

// Prompter asks questions on a terminal, which is in raw mode until restore: input typed before
// a question about a secret is not shown either.
type Prompter struct {
	terminal *term.Terminal
	restore  func() error
	width    int // 0 if it is not known
}

// newPrompter asks on a terminal, which restore gives back.
func newPrompter(in *os.File) (*Prompter, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	p := &Prompter{
		terminal: term.NewTerminal(in, ""),
		restore:  func() error { return term.Restore(int(in.Fd()), before) },
	}
	if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 {
		p.width = width
		_ = p.terminal.SetSize(width, height) // fails for no size
	}
	return p, nil
}

// Line asks until check accepts the answer; no answer is the default.
func (p *Prompter) Line(ctx context.Context, question, byDefault string, check func(string) error) (string, error) {
	if byDefault != "" {
		question += " [" + byDefault + "]"
	}
	return p.until(ctx, check, func() (string, error) {
		p.terminal.SetPrompt(question + ": ")
		text, err := p.terminal.ReadLine()
		return cmp.Or(strings.TrimSpace(text), byDefault), err
	})
}

// Secret asks for a text that is not shown until check accepts it.
func (p *Prompter) Secret(ctx context.Context, question string, check func(string) error) (string, error) {
	return p.until(ctx, check, func() (string, error) {
		text, err := p.terminal.ReadPassword(question + " (not shown): ")
		return strings.TrimSpace(text), err
	})
}

// until asks until check accepts an answer, or the context ends: a signal must not wait
// for the next line.
func (p *Prompter) until(ctx context.Context, check func(string) error, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	for {
		answers := make(chan answer, 1)
		go func() {
			text, err := read()
			answers <- answer{text, err}
		}()
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case a := <-answers:
			if a.err != nil {
				return "", fmt.Errorf("not answered: %w", a.err) // Ctrl-C, Ctrl-D
			}
			err := check(a.text)
			if err == nil {
				return a.text, nil
			}
			p.Say("  " + err.Error())
		}
	}
}

// Say prints a line, which is wrapped.
func (p *Prompter) Say(line string) {
	text := []string{line}
	if p.width > 0 {
		text = render.Wrap(line, p.width-1, 2)
	}
	fmt.Fprintln(p.terminal, strings.Join(text, "\n"))
}
