// Package console is what every command has: the settings, a clock, the output and the log.
package console

import (
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
)

// Console is what a command reads its settings from, and prints to.
type Console struct {
	Build    config.Build
	Out, Err io.Writer
	Now      func() time.Time
	Source   *config.Source
	// Quiet leaves out remarks for people, the bar, and log lines below warnings.
	Quiet bool
	// Progress shows how an export proceeds; log lines go through it, or to the target of DivertLog.
	Progress *render.Progress
	// Terminal: the log of an export is for a person.
	Terminal bool
	// Level is the level of all logs.
	Level *slog.LevelVar

	logTo *switchWriter
	// jsonLog gets the remarks for people in JSON mode; nil in text mode.
	jsonLog *slog.Logger
}

// New returns a console with the settings of the environment.
func New(build config.Build, out, err io.Writer, now func() time.Time) Console {
	progress := render.NewProgress(err, now)
	return Console{Build: build, Out: out, Err: err, Now: now, Source: config.ReadSource(config.EnvFile{}, nil),
		Progress: progress, Level: new(slog.LevelVar), logTo: &switchWriter{to: progress}}
}

// SpeakJSON lets nothing but JSON reach standard error: a line for people becomes one
// of the log, and there is neither a bar nor a status line.
func (a *Console) SpeakJSON() {
	if a.jsonLog != nil {
		return
	}
	a.Progress = render.NewProgress(struct{ io.Writer }{a.Err}, a.Now) // not a terminal
	a.logTo.set(a.Progress)
	log := slog.New(slog.NewJSONHandler(a.logTo, &slog.HandlerOptions{Level: a.Level}))
	a.jsonLog, a.Err = log, remarkWriter(func(text string) { log.Info("remark", "text", text) })
}

// SpeaksJSON reports whether nothing but JSON reaches standard error.
func (a *Console) SpeaksJSON() bool { return a.jsonLog != nil }

// remarkWriter is a writer that calls itself with each text, which is a whole line.
type remarkWriter func(text string)

func (l remarkWriter) Write(p []byte) (int, error) {
	if text := strings.TrimPrefix(strings.TrimSpace(string(p)), "docgauge: "); text != "" {
		l(text)
	}
	return len(p), nil
}

// Config reads the settings; n says which the command requires.
func (a *Console) Config(n config.Need) (config.Config, error) {
	c, err := a.Source.Load(n, a.Now())
	a.Take(&c)
	if a.Quiet {
		a.Progress.Quiet = true
	}
	return c, err
}

// Take completes settings that were read, and logs their warnings.
func (a *Console) Take(c *config.Config) {
	c.Build = a.Build
	if a.Quiet {
		c.LogLevel = max(c.LogLevel, slog.LevelWarn)
	}
	a.Level.Set(c.LogLevel)
	if c.LogFormat == "json" {
		a.SpeakJSON()
	}
	for _, text := range c.Warnings {
		a.Logger(*c).Warn(text)
	}
}

// OpenState reads the settings and opens the state without changing it; the caller closes it.
func (a *Console) OpenState(n config.Need) (c config.Config, db *state.DB, err error) {
	if c, err = a.Config(n); err == nil {
		db, err = state.OpenExisting(c.StateDir)
	}
	return c, db, err
}

// Note prints a remark for people on standard error, unless --quiet is given.
func (a *Console) Note(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.Err, "docgauge: "+format+"\n", args...)
	}
}

// Print prints a result as JSON, or as text for people.
func (a *Console) Print(asJSON bool, result any, text func() error) error {
	if asJSON {
		return render.JSON(a.Out, result)
	}
	return text()
}

// Wording names projects and windows for people.
func (a *Console) Wording(c config.Config) render.Wording {
	return render.Wording{Names: c.ProjectNames, Several: len(c.Projects) > 1, Year: a.Now().UTC().Year()}
}

// Logger returns the log, at the level of the settings.
func (a *Console) Logger(c config.Config) *slog.Logger {
	if a.jsonLog != nil {
		return a.jsonLog
	}
	a.Level.Set(c.LogLevel)
	var h slog.Handler = slog.NewTextHandler(a.logTo, &slog.HandlerOptions{Level: a.Level})
	if a.Terminal {
		h = render.Retries{Handler: h, To: a.logTo, Message: docsapi.RetryMessage}
	}
	return slog.New(h)
}

// DivertLog sends log lines to a status line, until restore is called.
func (a *Console) DivertLog(to io.Writer) (restore func()) {
	a.logTo.set(to)
	return func() { a.logTo.set(a.Progress) }
}

// switchWriter is a writer whose target can be exchanged.
type switchWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *switchWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func (w *switchWriter) set(to io.Writer) {
	w.mu.Lock()
	w.to = to
	w.mu.Unlock()
}

// SurviveClosedPipes is for commands that must not die of a line they print: if its
// reader ends, a pager or a log shipper, SIGPIPE would kill them in the middle of a
// POST.
func SurviveClosedPipes() { signal.Ignore(syscall.SIGPIPE) }
