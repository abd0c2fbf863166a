package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// maxKeptWindows bounds the windows in memory, which take about 500 bytes each, and maxKeptAnswers the answers.
	maxKeptWindows = 50_000
	maxKeptAnswers = 64
	// maxKeptRows bounds the rows of an answer of the API that is kept.
	maxKeptRows = 1000
)

// kept is what an archive said since it last changed: which windows it has, and answers.
type kept struct {
	mu      sync.Mutex
	mark    string
	windows map[string][]sinks.Shown // by scope
	count   int                      // of windows
	answers map[string]any

	inputs   map[string]versioned // of the pages of a project, by its id
	versions int
}

// pageInputs are the parts of a snapshot that a page or list of the archive shows.
type pageInputs struct {
	day      analytics.Date
	project  view.Project
	outcomes view.Outcomes
}

type versioned struct {
	of      pageInputs
	version int
}

// versionOf returns a number that is another one if the pages of a project have other inputs than in the last question.
func versionOf(from sinks.Sink, in pageInputs) int {
	s, ok := from.(unnamed).Sink.(keptSink)
	if !ok {
		return 0
	}
	k := s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.inputs[in.project.ID]
	if !reflect.DeepEqual(known.of, in) {
		k.versions++
		known.version = k.versions
	}
	known.of = in // of the newest snapshot: the former one is no longer needed
	k.inputs[in.project.ID] = known
	return known.version
}

// keptSink is an archive for one question, whose windows are listed from memory if it has not changed.
type keptSink struct {
	sinks.Sink
	kept *kept
	// mark is the state of the archive before the question; empty: nothing is kept.
	mark func(context.Context) string
}

// keeping returns the archive with a new memory.
func (a Archive) keeping() Archive {
	k := &kept{inputs: map[string]versioned{}}
	return func(ask func(sinks.Sink) error) error {
		return a(func(from sinks.Sink) error {
			var once sync.Once
			var mark string
			return ask(keptSink{from, k, func(ctx context.Context) string {
				once.Do(func() { mark = sinks.Mark(ctx, from) })
				return mark
			}})
		})
	}
}

// at calls do with a memory of this state of the archive. What it had of another one is dropped.
func (k *kept) at(mark string, do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if mark == "" {
		return
	}
	if k.mark != mark {
		k.mark, k.windows, k.count, k.answers = mark, map[string][]sinks.Shown{}, 0, map[string]any{}
	}
	do()
}

// Inspect yields the windows in scope: from memory, or from the archive.
func (s keptSink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	mark, name := "", fmt.Sprintf("%q %q %v", scope.Projects, scope.Granularities, scope.Reports)
	if !scope.Rows && scope.Keys == nil {
		mark = s.mark(ctx)
	}
	var known []sinks.Shown
	s.kept.at(mark, func() { known = s.kept.windows[name] })
	return func(yield func(sinks.Shown, error) bool) {
		for _, shown := range known {
			if !yield(shown, nil) {
				return
			}
		}
		if known != nil {
			return
		}
		all, isWhole := []sinks.Shown{}, true
		for shown, err := range s.Sink.Inspect(ctx, scope) {
			if isWhole = isWhole && err == nil && len(all) < maxKeptWindows; isWhole {
				all = append(all, shown)
			}
			if !yield(shown, err) {
				return
			}
		}
		s.kept.at(mark, func() {
			if _, twice := s.kept.windows[name]; isWhole && !twice && s.kept.count+len(all) <= maxKeptWindows {
				s.kept.windows[name], s.kept.count = all, s.kept.count+len(all)
			}
		})
	}
}

// keptAnswer is an answer in memory.
type keptAnswer[T any] struct {
	of    T
	found error // a NoAnswerError, or nil
}

// answer returns what read returns: from memory if the archive has not changed since that was read under this name. A
// small one is kept.
func answer[T any](
	ctx context.Context, from sinks.Sink, name string, isSmall func(T) bool, read func() (T, error),
) (T, error) {
	s, ok := from.(unnamed).Sink.(keptSink)
	if !ok {
		return read()
	}
	mark, known := s.mark(ctx), any(nil)
	s.kept.at(mark, func() { known = s.kept.answers[name] })
	if known, ok := known.(keptAnswer[T]); ok {
		return known.of, known.found
	}
	out, err := read()
	if _, none := errors.AsType[query.NoAnswerError](err); (err == nil || none) && isSmall(out) {
		s.kept.at(mark, func() {
			if len(s.kept.answers) >= maxKeptAnswers {
				clear(s.kept.answers)
			}
			s.kept.answers[name] = keptAnswer[T]{out, err}
		})
	}
	return out, err
}
