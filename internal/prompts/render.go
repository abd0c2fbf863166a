package prompts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Rendered is what is sent.
type Rendered struct {
	Text      string
	FollowUps []string
}

// RenderError is a prompt that cannot be rendered now. If numbers are missing it
// is ErrNoNumbers, and if it comes out empty ErrNothing: another time may do. If not,
// the file must be mended, or the numbers could not be read.
type RenderError struct {
	Finding
	err error
}

func (e *RenderError) Error() string { return e.Finding.String() }
func (e *RenderError) Unwrap() error { return e.err }

// Render returns what is to be sent for p at a time: the firing of a prompt that
// recurs, now for any other. Without a template that is its text. n may be nil if
// there are no numbers. The error is a *RenderError.
func Render(ctx context.Context, p Prompt, at time.Time, n Numbers) (Rendered, error) {
	if !p.Template {
		return Rendered{Text: p.Body, FollowUps: p.FollowUps}, nil
	}
	var out Rendered
	fill := &filling{ctx: ctx, prompt: p, at: at.UTC(), numbers: n}
	for i, part := range parts(p) {
		text, err := fill.render(part)
		switch {
		case err != nil:
			err.Path = p.Path
			return Rendered{}, err
		case i == 0:
			out.Text = text
		default:
			out.FollowUps = append(out.FollowUps, text)
		}
	}
	return out, nil
}

// render fills in one text.
func (f *filling) render(p part) (string, *RenderError) {
	t, wrong := compile(p.text, p.line, f.prompt.Recurs())
	if len(wrong) > 0 {
		return "", &RenderError{Finding: wrong[0]}
	}
	out := &limited{left: MaxBytes + p.line}
	if err := t.Funcs(f.functions()).Execute(out, f.variables()); err != nil {
		return "", renderError(err, p.line)
	}
	text, _ := tidy(out.String())
	if err := checkRendered(text); err != nil {
		return "", &RenderError{Finding{Line: p.line, Text: "template: " + err.Error()}, err}
	}
	return text, nil
}

// ErrNothing: a template renders to nothing, so there is nothing to send now.
var ErrNothing = errors.New("renders to nothing")

var errTooLong = errors.New("renders to more than 64 KiB: ask for fewer pages")

func checkRendered(text string) error {
	_, problem := checkText(text)
	switch {
	case problem != "":
		return errors.New("when rendered, " + problem)
	case text == "":
		return ErrNothing
	case len(text) > MaxBytes:
		return errTooLong
	}
	return nil
}

// renderError takes the place from the library's error, and the words from ours
// where it is ours.
func renderError(err error, line int) *RenderError {
	finding := templateError(err)
	if failed, ok := errors.AsType[*callError](err); ok {
		finding.Text = "template: " + failed.Error()
	}
	if errors.Is(err, errTooLong) {
		finding = Finding{Line: line, Text: "template: " + errTooLong.Error()}
	}
	return &RenderError{Finding: finding, err: err}
}

// callError is an error of one of our functions.
type callError struct{ err error }

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

func callf(format string, args ...any) error { return &callError{fmt.Errorf(format, args...)} }

// limited holds at most left bytes more.
type limited struct {
	strings.Builder
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errTooLong
	}
	return l.Builder.Write(p)
}
