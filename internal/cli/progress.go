package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/docgauge/docgauge/internal/export"
)

// switchWriter is a writer whose target can be exchanged: log lines go in front
// of a progress bar while there is one.
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

// progress counts what a run has done, and shows it where standard error is a
// terminal. Nothing depends on it.
type progress struct {
	app *Program

	mu     sync.Mutex
	bar    *progressbar.ProgressBar
	finish time.Time
	pages  int
	rows   int64
}

func newProgress(a *Program) *progress { return &progress{app: a} }

// Reset begins another run.
func (p *progress) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages, p.rows = 0, 0
}

// Begin shows a bar for so many windows, with the time at which the budget lets the
// last of them be read.
func (p *progress) Begin(windows int, finish time.Time) {
	if !isTerminal(p.app.Err) || windows == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish = finish
	p.show(windows, false)
	p.describe()
}

// beginLoad shows a bar for n windows, with the time that is left.
func (p *progress) beginLoad(n int) {
	if !isTerminal(p.app.Err) || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(n, true)
	p.bar.Describe("windows")
}

// loaded counts a window of so many rows.
func (p *progress) loaded(rows int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows += max(rows, 0)
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("windows · %s rows", commas(p.rows)))
		_ = p.bar.Add(1)
	}
}

func (p *progress) show(n int, predict bool) {
	p.bar = progressbar.NewOptions(n,
		progressbar.OptionSetWriter(p.app.Err),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(predict),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionShowCount(),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionShowDescriptionAtLineEnd(),
	)
	p.app.logTo.set(&aboveBar{p})
}

// aboveBar writes log lines so that the bar stays below them.
type aboveBar struct{ p *progress }

func (w *aboveBar) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if w.p.bar == nil {
		return w.p.app.Err.Write(b)
	}
	if err := w.p.bar.Clear(); err != nil {
		return 0, err
	}
	n, err := w.p.app.Err.Write(b)
	if err != nil {
		return n, err
	}
	return n, w.p.bar.RenderBlank()
}

// End removes the bar.
func (p *progress) End() {
	p.app.logTo.set(p.app.Err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

func (p *progress) describe() {
	text := fmt.Sprintf("windows · %s · %s rows", plural(p.pages, "request"), commas(p.rows))
	if left := p.finish.Sub(p.app.now()); left > time.Minute {
		text += " · the budget lets the rest finish at " + clock(p.finish)
	}
	p.bar.Describe(text)
}

// Observe is told each step of an export, from many goroutines.
func (p *progress) Observe(ev export.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	step := 0
	switch ev.Step {
	case export.StepPage:
		p.pages++
		p.rows += ev.Rows
	case export.StepMispredicted:
		p.pages++
	case export.StepOpen:
		p.pages++
		step = 1
	case export.StepRecorded:
		step = 1
	}
	if p.bar != nil {
		p.describe()
		_ = p.bar.Add(step)
	}
}
