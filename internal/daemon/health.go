package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/web"
)

const (
	// sinkEvery is how often the sinks are checked, sinkAgain how often while one cannot
	// be reached.
	sinkEvery = 5 * time.Minute
	sinkAgain = 30 * time.Second
	// sinkTimeout bounds one check.
	sinkTimeout = 30 * time.Second
	// runSlack is how late a run may begin, or may end after its deadline.
	runSlack = time.Minute
)

// health is what is known about the parts of a daemon; probes read it from memory.
type health struct {
	mu      sync.Mutex
	state   string            // why the state cannot be read, empty if it can
	sinks   map[string]string // why a sink cannot be reached, by its name
	running time.Time         // when the run under way began, zero if there is none
}

func (h *health) setState(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state = ""; err != nil {
		h.state = err.Error()
	}
}

func (h *health) setSinks(problems map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sinks = problems
}

func (h *health) sink(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sinks[name]
}

// unreachable says why sinks cannot be reached, by their names.
func (h *health) unreachable() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sinks // is replaced, never changed
}

func (h *health) begin(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = at
}

func (h *health) end() { h.begin(time.Time{}) }

// problems says why the daemon is not ready.
func (d *Daemon) problems() []string {
	values := d.values.Load()
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	var out []string
	switch {
	case d.health.state != "":
		out = append(out, "state: "+d.health.state)
	case values == nil:
		return []string{"starting: the state is being read"}
	}
	if values != nil {
		if text, _ := d.late(values.LastCompletion); text != "" {
			out = append(out, text)
		}
	}
	if text := d.queue.status(); text != "" {
		out = append(out, "prompts: "+text)
	}
	for _, s := range d.app.Sinks {
		if text := d.health.sinks[s.Name()]; text != "" {
			out = append(out, "sink "+s.Name()+": "+text)
		}
	}
	return out
}

// alert is what the status page says that no snapshot can: why there is no newer one, or
// that no run ends.
func (d *Daemon) alert() web.Alert {
	values := d.values.Load()
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	switch {
	case d.health.state != "":
		return web.Alert{Headline: "The state cannot be read: these values are old", Text: d.health.state, Rule: "DocgaugeSnapshotOld"}
	case values == nil:
		return web.Alert{}
	}
	text, rule := d.late(values.LastCompletion)
	return web.Alert{Headline: "The export is late", Text: text, Rule: rule}
}

// late says that no run ended during two firings of the schedule, and which alert that
// is. A run under way is late only when it should have been ended.
func (d *Daemon) late(completed time.Time) (text, rule string) {
	const minutes = "2006-01-02 15:04 UTC"
	c, now := d.app.Config, d.app.Now()
	if began := d.health.running; !began.IsZero() {
		if now.Sub(began) > time.Duration(c.RunTimeout)+runSlack {
			text = fmt.Sprintf("export: the run that began at %s hangs: it does not end at DOCGAUGE_RUN_TIMEOUT; restart docgauge", began.UTC().Format(minutes))
		}
		return text, "DocgaugeExportHanging"
	}
	if completed.Before(d.started) {
		completed = d.started
	}
	if now.After(c.Schedule.Next(c.Schedule.Next(completed)).Add(runSlack)) {
		text = fmt.Sprintf("export: no run ended since %s, which is more than two firings of DOCGAUGE_SCHEDULE ago", completed.UTC().Format(minutes))
	}
	return text, "DocgaugeDataStale"
}

// watchSinks checks whether the sinks can be reached, until ctx ends.
func (d *Daemon) watchSinks(ctx context.Context) {
	for {
		problems := map[string]string{}
		for _, s := range d.app.Sinks {
			within, cancel := context.WithTimeout(ctx, sinkTimeout)
			err := s.Check(within)
			cancel()
			if err == nil || ctx.Err() != nil {
				continue
			}
			problems[s.Name()] = err.Error()
			if d.health.sink(s.Name()) == "" {
				d.app.Log.Warn("sink not reachable", "sink", s.Name(), "error", err)
			}
		}
		if ctx.Err() != nil {
			return
		}
		d.health.setSinks(problems)
		requestOnce(d.changed)
		wait := sinkEvery
		if len(problems) > 0 {
			wait = sinkAgain
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-d.recheck:
			timer.Stop()
		}
	}
}
