package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// Projects are the two projects of the sandbox.
var Projects = []string{"prj_docs", "prj_api"}

// Options say what to start.
type Options struct {
	Binary string   // of docgauge
	Dir    string   // where everything is kept; made if it is not there
	Rules  []string // files of rules for Prometheus; see RuleFiles
	// Say is told what is being done, and of each alert, a line each; nil: nobody
	// is. It may be called from several goroutines at once.
	Say func(text string)
}

// Stack is what runs. What is not installed is nil, and listed in Missing.
type Stack struct {
	API          string // base URL of the sandbox
	URL          string // of serve, without a path
	ClickHouse   *engines.ClickHouse
	Alertmanager *engines.Alertmanager
	Prometheus   *engines.Prometheus
	Missing      []engines.Missing

	options     Options
	sandbox     *engines.Command
	serve       *engines.Command
	environment []string       // of docgauge
	repository  string         // what agent jobs edit; empty: they pretend
	stops       []func() error // in the order of starting
}

// Start starts everything, and fills it: an export of the past two months and
// this one into the sinks, and that history into Prometheus. It returns when
// serve runs and has its prompts; Await waits until it has done all. After an
// error nothing runs.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	s := &Stack{options: o}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("stack in %s: %w", o.Dir, err), s.Stop())
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) (err error) {
	if s.options.Dir, err = filepath.Abs(s.options.Dir); err != nil {
		return err
	}
	if s.options.Binary, err = filepath.Abs(s.options.Binary); err != nil {
		return err
	}
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return err
	}
	port, err := engines.Port() // Prometheus must know it before serve runs
	if err != nil {
		return err
	}
	s.URL = "http://127.0.0.1:" + strconv.Itoa(port)
	for _, step := range []struct {
		say string
		do  func(context.Context) error
	}{
		{"a documentation site in git", s.writeSite},
		{"sandbox", s.startSandbox},
		{"clickhouse", s.startClickHouse},
		{"export of the past days", s.export},
		{"alertmanager", s.startAlertmanager},
		{"prometheus, with the history", s.startPrometheus},
		{"serve", s.startServe},
		{"prompts for agent jobs", s.writePrompts},
	} {
		s.options.Say(step.say)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.say, err)
		}
	}
	return nil
}

// Stop ends everything, last started first. What it kept stays in the directory.
func (s *Stack) Stop() error {
	var errs []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		errs = append(errs, s.stops[i]())
	}
	s.stops = nil
	return errors.Join(errs...)
}

// without takes note of an engine that is not installed; other errors are errors.
func (s *Stack) without(err error) error {
	missing, ok := errors.AsType[engines.Missing](err)
	if !ok {
		return err
	}
	s.Missing = append(s.Missing, missing)
	s.options.Say(missing.Error() + "; going on without it")
	return nil
}

// path is a path below the directory of the stack.
func (s *Stack) path(elements ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, elements...)...)
}
