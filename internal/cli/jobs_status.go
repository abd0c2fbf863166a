package cli

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/view"
)

// eraseLine moves the cursor to the first column and empties the line.
const eraseLine = "\r\x1b[K"

// statusLine is a line at the bottom of a terminal that shows how jobs run --wait is
// going; log lines scroll above it. It reads the journal and writes nothing: a run
// without a terminal has none, and its methods do nothing then.
type statusLine struct {
	app      *Program
	run      *queueRunner
	terminal *os.File
	release  func() bool

	mu      sync.Mutex
	planned []jobs.Planned // as of the last pass
	text    string
	ended   bool
}

// showStatus shows the line if standard error is a terminal, until end is called.
func (a *Program) showStatus(ctx context.Context, r *queueRunner) *statusLine {
	terminal, ok := a.Err.(*os.File)
	if a.quiet || !ok || !render.IsTerminal(a.Err) || os.Getenv("TERM") == "dumb" || runtime.GOOS == "windows" {
		return nil
	}
	l := &statusLine{app: a, run: r, terminal: terminal}
	a.logTo.set(l)
	l.release = context.AfterFunc(ctx, func() { l.show("stopping once the pending request is answered") })
	return l
}

// end takes the line away.
func (l *statusLine) end() {
	if l == nil {
		return
	}
	l.release()
	l.app.logTo.set(l.app.progress)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true // a stop may still be about to show itself
	_, _ = l.terminal.WriteString(eraseLine)
}

// passed is called with the prompts after each pass.
func (l *statusLine) passed(planned []jobs.Planned) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.planned = planned
	l.mu.Unlock()
	l.refresh()
}

// refresh shows the current journal. If it cannot be read, the line does not change.
func (l *statusLine) refresh() {
	if l == nil {
		return
	}
	all, err := l.run.app.State.Jobs(context.Background())
	if err != nil {
		return
	}
	queue, err := l.run.app.State.Queue(context.Background())
	if err != nil {
		return
	}
	l.mu.Lock()
	planned := l.planned
	l.mu.Unlock()
	l.show(statusText(planned, all, queue, l.run.app.Config, l.app.now()))
}

// show puts text in the place of the line before.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	width, _, err := term.GetSize(int(l.terminal.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	if runes := []rune(text); len(runes) >= width {
		text = string(runes[:width-1])
	}
	if text == l.text || l.ended {
		return
	}
	l.text = text
	_, _ = l.terminal.WriteString(eraseLine + text) // a terminal that is gone does not end the run
}

// Write writes log lines above the line.
func (l *statusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.terminal.WriteString(eraseLine + string(p) + l.text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// statusText is the number of prompts in each state, the time at which more may be sent, and the
// use of the caps. It has no text from files or the service.
func statusText(planned []jobs.Planned, all []journal.Job, queue journal.Queue, c config.Config, now time.Time) string {
	counts := map[journal.State]int{}
	newest := journal.Newest(all)
	var next time.Time
	for _, p := range planned {
		state := p.State
		if j, ok := newest[p.ID]; ok && (p.Job == nil || p.Job.Seq != j.Seq || p.Job.Version != j.Version) {
			state = j.State // it has changed since the last pass
		}
		counts[state]++
		delete(newest, p.ID)
		if state == journal.Pending && p.Until.After(now) && (next.IsZero() || p.Until.Before(next)) {
			next = p.Until
		}
	}
	for _, j := range newest {
		if !j.State.Ended() {
			counts[j.State]++
		}
	}
	var states []string
	for _, state := range journal.States() {
		if n := counts[state]; n > 0 {
			states = append(states, format.Commas(int64(n))+" "+string(state))
		}
	}
	var parts []string
	if queue.Paused != "" {
		parts = append(parts, "paused ("+string(queue.Paused)+")")
	}
	if len(states) > 0 {
		parts = append(parts, strings.Join(states, ", "))
	}
	if !next.IsZero() {
		parts = append(parts, "more may be sent at "+format.Time(next))
	}
	perDay, active := jobs.Usage(all, now)
	parts = append(parts, ofCap(active, int(c.MaxActiveJobs))+" at work",
		ofCap(perDay, int(c.MaxJobsPerDay))+" in 24 h")
	if c.MaxCostPerDay > 0 {
		cost, unit := jobs.CostOfDay(all, float64(c.JobCost), now)
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("cost %s of %s %s", view.AmountText(cost),
			view.AmountText(float64(c.MaxCostPerDay)), unit)))
	}
	return strings.Join(parts, " · ")
}

// ofCap writes the used part of a cap.
func ofCap(used, limit int) string {
	if limit == 0 {
		return fmt.Sprint(used)
	}
	return fmt.Sprintf("%d of %d", used, limit)
}
