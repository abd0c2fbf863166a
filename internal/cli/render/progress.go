package render

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/format"
)

// Progress shows a bar on standard error where that is a terminal, and how far a run
// has come. Nothing depends on it. Log lines that are written to it appear above the
// bar.
type Progress struct {
	// Quiet leaves the bar out. It is set before anything begins.
	Quiet bool

	to  io.Writer
	now func() time.Time

	mu     sync.Mutex
	bar    *progressbar.ProgressBar
	drawn  int // columns of the bar itself
	finish time.Time
	pages  int
	rows   int64

	unit, details string // of BeginCount
	done          int
}

// NewProgress returns one that shows its bar on w if that is a terminal.
func NewProgress(w io.Writer, now func() time.Time) *Progress { return &Progress{to: w, now: now} }

// Write writes log lines so that the bar stays below them.
func (p *Progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return p.to.Write(b)
	}
	if err := p.bar.Clear(); err != nil {
		return 0, err
	}
	n, err := p.to.Write(b)
	if err != nil {
		return n, err
	}
	return n, p.bar.RenderBlank()
}

// Reset begins another run.
func (p *Progress) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages, p.rows = 0, 0
}

// Pause says on a terminal until when nothing is sent.
func (p *Progress) Pause(until time.Time, windows int) {
	if !IsTerminal(p.to) {
		return // the log has it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	NewText(p.to).Line(2, "waiting for the budget until %s, %s left", format.Clock(until, p.now()),
		format.Plural(windows, "window"))
}

// Begin shows a bar for so many windows, with the time at which the budget lets the
// last of them be read; the zero time if that is not known.
func (p *Progress) Begin(windows int, finish time.Time) {
	if p.Quiet || !IsTerminal(p.to) || windows == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish = finish
	p.show(windows, false)
	p.describeExport()
}

// BeginCount shows a bar for n units, with the time that is left. Each unit has a number of
// details, such as rows.
func (p *Progress) BeginCount(n int, unit, details string) {
	if p.Quiet || !IsTerminal(p.to) || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unit, p.details = unit, details
	p.show(n, true)
	p.describe(unit)
}

// Count sets the number of units that are done, and of their details.
func (p *Progress) Count(done int, details int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil || done == p.done && details == p.rows {
		return
	}
	p.done, p.rows = done, details
	p.describe(p.unit + " · " + format.Commas(details) + " " + p.details)
	_ = p.bar.Set(done)
}

const (
	// widestBar and narrowestBar bound the bar itself, besides what stands around it:
	// barMargin for the count, the percentage and the time that is left.
	widestBar, narrowestBar = 24, 5
	barMargin               = 30
)

// columns is the width of the description and the bar itself, in columns.
func (p *Progress) columns() int { return max(width(p.to)-barMargin, narrowestBar) }

// describe shows as much of text as the terminal has room for.
func (p *Progress) describe(text string) { p.bar.Describe(shorten(text, p.columns()-p.drawn, CutEnd)) }

func (p *Progress) show(n int, predict bool) {
	p.drawn = min(widestBar, max(narrowestBar, p.columns()/4))
	p.bar = progressbar.NewOptions(n,
		progressbar.OptionSetWriter(p.to),
		progressbar.OptionSetWidth(p.drawn),
		progressbar.OptionSetPredictTime(predict),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionShowCount(),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionShowDescriptionAtLineEnd(),
	)
}

// End removes the bar.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

func (p *Progress) describeExport() {
	text := fmt.Sprintf("%s · %s rows", format.Plural(p.pages, "request"), format.Commas(p.rows))
	if left := p.finish.Sub(p.now()); left > time.Minute {
		text += " · all by " + format.Clock(p.finish, p.now())
	}
	p.describe(text)
}

// Observe counts a step of an export. It may be called from many goroutines.
func (p *Progress) Observe(ev export.Event) {
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
		p.describeExport()
		_ = p.bar.Add(step)
	}
}
