// Package cli is the command line: one file a command, which reads flags, makes one
// call, and prints the result.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/state"
)

// Exit codes.
const (
	exitDone   = 0 // done, nothing due, or the rest deferred by the budget
	exitFailed = 1
	exitUsage  = 2 // bad usage or configuration; nothing was done
	exitLocked = 3 // another process holds the state
)

// Program is the command line.
type Program struct {
	// Version, Commit and Branch are those of the build.
	Version, Commit, Branch string
	Out, Err                io.Writer

	// now is the clock; nil: the system's.
	now func() time.Time
	// progress shows how an export proceeds; log lines go through it, or through the
	// status line of a queue.
	progress *render.Progress
	logTo    *switchWriter
	// jsonLog gets the remarks for people in JSON mode; nil in text mode.
	jsonLog *slog.Logger
	source  *config.Source
	quiet   bool
	// terminal: the log of an export is for a person.
	terminal bool
	// level is that of all logs.
	level *slog.LevelVar
	// observe is called for each step of an export; only tests set it.
	observe func(export.Event)
}

// ready returns the program with everything that commands use.
func (p Program) ready() *Program {
	if p.now == nil {
		p.now = time.Now
	}
	p.progress, p.level = render.NewProgress(p.Err, p.now), new(slog.LevelVar)
	p.logTo, p.source = &switchWriter{to: p.progress}, config.ReadSource(config.EnvFile{}, nil)
	return &p
}

// Run runs a command and returns the exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	a := p.ready()
	if earlyFormat(args) == "json" { // for messages before there is a configuration
		a.speakJSON()
	}
	cobra.EnableCommandSorting = false // people need them in our order
	root := a.root()
	root.SetArgs(args)
	help := &firstErrorWriter{Writer: p.Out}
	root.SetOut(help)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = help.err
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errReported):
	case a.jsonLog != nil:
		a.jsonLog.Error("command failed", "error", err.Error())
	default:
		fmt.Fprintln(p.Err, "docgauge: "+err.Error())
	}
	return exitCode(err)
}

// firstErrorWriter keeps the first error of a writer: cobra drops those of its help.
type firstErrorWriter struct {
	io.Writer
	err error
}

func (k *firstErrorWriter) Write(p []byte) (int, error) {
	n, err := k.Writer.Write(p)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

// earlyFormat is the log format as far as it is known before flags are read. It is used for
// errors about the flags.
func earlyFormat(args []string) string {
	const flag = "--log.format"
	format := os.Getenv("DOCGAUGE_LOG_FORMAT")
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			format = value
		} else if arg == flag && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format
}

// speakJSON lets nothing but JSON reach standard error: a line for people becomes one
// of the log, and there is neither a bar nor a status line.
func (a *Program) speakJSON() {
	if a.jsonLog != nil {
		return
	}
	a.progress = render.NewProgress(struct{ io.Writer }{a.Err}, a.now) // not a terminal
	a.logTo.set(a.progress)
	a.Err = remarkWriter(func(text string) { a.jsonLog.Info("remark", "text", text) })
	a.jsonLog = slog.New(slog.NewJSONHandler(a.logTo, &slog.HandlerOptions{Level: a.level}))
}

// remarkWriter is a writer that calls itself with each text, which is a whole line.
type remarkWriter func(text string)

func (l remarkWriter) Write(p []byte) (int, error) {
	if text := strings.TrimPrefix(strings.TrimSpace(string(p)), "docgauge: "); text != "" {
		l(text)
	}
	return len(p), nil
}

// errReported is the error of a command that has already reported everything.
var errReported = errors.New("failed")

// usageError is a mistake in the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func exitCode(err error) int {
	_, bad := errors.AsType[config.Problems](err)
	_, usage := errors.AsType[usageError](err)
	_, selection := errors.AsType[coverage.SelectionError](err)
	switch {
	case bad || usage || selection:
		return exitUsage
	case errors.Is(err, state.ErrLocked), errors.Is(err, facts.ErrLocked):
		return exitLocked
	}
	return exitFailed
}

// config reads the settings; n says which the command requires.
func (a *Program) config(n config.Need) (config.Config, error) {
	c, err := a.source.Load(n, a.now())
	a.take(&c)
	if a.quiet {
		a.progress.Quiet = true
	}
	return c, err
}

// take completes settings that were read, and logs their warnings.
func (a *Program) take(c *config.Config) {
	c.Build = a.build()
	if a.quiet {
		c.LogLevel = max(c.LogLevel, slog.LevelWarn)
	}
	a.level.Set(c.LogLevel)
	if c.LogFormat == "json" {
		a.speakJSON()
	}
	for _, text := range c.Warnings {
		a.logger(*c).Warn(text)
	}
}

// note prints a remark for people on standard error, unless --quiet is given.
func (a *Program) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.Err, "docgauge: "+format+"\n", args...)
	}
}

// print prints a result as JSON, or as text for people.
func (a *Program) print(asJSON bool, result any, text func() error) error {
	if asJSON {
		return render.JSON(a.Out, result)
	}
	return text()
}

func (a *Program) logger(c config.Config) *slog.Logger {
	if a.jsonLog != nil {
		return a.jsonLog
	}
	a.level.Set(c.LogLevel)
	var h slog.Handler = slog.NewTextHandler(a.logTo, &slog.HandlerOptions{Level: a.level})
	if a.terminal {
		h = render.Retries{Handler: h, To: a.logTo, Message: docsapi.RetryMessage}
	}
	return slog.New(h)
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

func (a *Program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print version, revision and Go version",
		RunE:  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *Program) printVersion() error {
	b := a.build()
	branch := ""
	if a.Branch != "" {
		branch = ", branch " + a.Branch
	}
	_, err := fmt.Fprintf(a.Out, "docgauge %s (revision %s, %s %s/%s%s)\n", b.Version, b.Revision, runtime.Version(),
		runtime.GOOS, runtime.GOARCH, branch)
	return err
}

// build says which build this is. The linker sets the commit where the build has no
// version control.
func (a *Program) build() config.Build {
	b := config.Build{Version: a.Version, Revision: a.Commit}
	info, ok := debug.ReadBuildInfo()
	if b.Revision == "" && ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	b.Revision = cmp.Or(b.Revision, "unknown")
	return b
}
