package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/web"
)

const (
	// sinkEvery is the time between two checks of the sinks, sinkAgain while one cannot be reached.
	sinkEvery = 5 * time.Minute
	sinkAgain = 30 * time.Second
	// sinkTimeout limits one check.
	sinkTimeout = 30 * time.Second
	// runSlack is the delay that the begin of a run, or its end after its deadline, may have.
	runSlack = time.Minute
)

// health has the values that probes read from memory.
type health struct {
	state   error             // why the state cannot be read
	sinks   map[string]string // why a sink cannot be reached, by its name; replaced, never changed
	running time.Time         // when the run in progress began, or zero
}

// problems says why the daemon is not ready.
func (d *daemon) problems() (out []string) {
	h, values := d.health.get(), d.values.Load()
	switch {
	case h.state != nil:
		out = append(out, "state: "+h.state.Error())
	case values == nil:
		return []string{"starting: the state is being read"}
	}
	if values != nil {
		if text, _ := d.late(h, values.LastCompletion); text != "" {
			out = append(out, text)
		}
	}
	if text := d.queue.problem(); text != "" {
		out = append(out, "prompts: "+text)
	}
	for _, s := range d.app.Sinks {
		if text := h.sinks[s.Name()]; text != "" {
			out = append(out, "sink "+s.Name()+": "+text)
		}
	}
	return out
}

// alert is the status page's warning about problems that a snapshot cannot show: why the newest
// one is old, or that no run ends.
func (d *daemon) alert() web.Alert {
	h, values := d.health.get(), d.values.Load()
	switch {
	case h.state != nil:
		return web.Alert{Headline: "The state cannot be read: these values are old", Text: h.state.Error(),
			Rule: "DocgaugeSnapshotOld"}
	case values == nil:
		return web.Alert{}
	}
	text, rule := d.late(h, values.LastCompletion)
	return web.Alert{Headline: "The export is late", Text: text, Rule: rule}
}

// late says that no run ended during two firings of the schedule, and which alert that is. A run in
// progress is late only after its deadline.
func (d *daemon) late(h health, completed time.Time) (text, rule string) {
	const minutes = "2006-01-02 15:04 UTC"
	c, now := d.app.Config, d.app.Now()
	if !h.running.IsZero() {
		if now.Sub(h.running) > time.Duration(c.RunTimeout)+runSlack {
			text = fmt.Sprintf("export: the run that began at %s hangs: it does not end at DOCGAUGE_RUN_TIMEOUT; "+
				"restart docgauge", h.running.UTC().Format(minutes))
		}
		return text, "DocgaugeExportHanging"
	}
	if completed.Before(d.started) {
		completed = d.started
	}
	if c.Schedule.Missed(2, completed, now.Add(-runSlack)) {
		text = fmt.Sprintf("export: no run ended since %s, which is more than two firings of DOCGAUGE_SCHEDULE ago",
			completed.UTC().Format(minutes))
	}
	return text, "DocgaugeDataStale"
}

// watchSinks checks whether the sinks can be reached, until ctx ends.
func (d *daemon) watchSinks(ctx context.Context) {
	for {
		former, problems := d.health.get().sinks, map[string]string{}
		for _, s := range d.app.Sinks {
			within, cancel := context.WithTimeout(ctx, sinkTimeout)
			err := s.Check(within)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				continue
			}
			problems[s.Name()] = err.Error()
			if former[s.Name()] == "" {
				d.app.Log.Warn("sink not reachable", "sink", s.Name(), "error", err)
			}
		}
		d.health.change(func(h *health) { h.sinks = problems })
		d.changed.Send()
		wait := sinkEvery
		if len(problems) > 0 {
			wait = sinkAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-d.recheck:
		}
	}
}
