package cli

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// sinkEvery is how often the sinks are looked at, sinkAgain how often while
	// one cannot be reached.
	sinkEvery = 5 * time.Minute
	sinkAgain = 30 * time.Second
	// sinkTimeout bounds one look.
	sinkTimeout = 30 * time.Second
	// runSlack is how late a run may be begun, or may end after its deadline.
	runSlack = time.Minute
)

// health is what is known of the parts of a daemon; probes read it from memory.
type health struct {
	mu      sync.Mutex
	state   string            // why the state cannot be read, empty if it can
	sinks   map[string]string // of those that cannot be reached, why
	running time.Time         // when the run under way began; zero: none is
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

func (h *health) begin(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = at
}

func (h *health) end() { h.begin(time.Time{}) }

// reasons says why the daemon is not ready.
func (d *daemon) reasons() []string {
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
		if text := d.late(values.LastCompletion); text != "" {
			out = append(out, text)
		}
	}
	if text := d.queueProblem(); text != "" {
		out = append(out, text)
	}
	for _, s := range d.stores {
		if text := d.health.sinks[s.Name()]; text != "" {
			out = append(out, "sink "+s.Name()+": "+text)
		}
	}
	return out
}

// queueProblem says why no prompt is sent, where somebody must do something.
func (d *daemon) queueProblem() string {
	if d.queue == nil {
		return ""
	}
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	switch {
	case d.queue.now.problem != "":
		return "prompts: " + d.queue.now.problem
	case d.queue.refused:
		return "prompts: the service refused the key; the queue goes on when it changes"
	}
	return ""
}

// late says that no run ended during two firings of the schedule. A run under
// way is late only when it should have been ended.
func (d *daemon) late(completed time.Time) string {
	now := d.now()
	if began := d.health.running; !began.IsZero() {
		if now.Sub(began) > time.Duration(d.RunTimeout)+runSlack {
			return fmt.Sprintf("export: the run that began at %s hangs: it does not end at DOCGAUGE_RUN_TIMEOUT; restart docgauge", clock(began))
		}
		return ""
	}
	if completed.Before(d.started) {
		completed = d.started
	}
	if now.After(d.Schedule.Next(d.Schedule.Next(completed)).Add(runSlack)) {
		return fmt.Sprintf("export: no run ended since %s, which is more than two firings of DOCGAUGE_SCHEDULE ago", clock(completed))
	}
	return ""
}

// watchSinks looks whether the sinks can be reached, until ctx ends.
func (d *daemon) watchSinks(ctx context.Context) {
	for {
		problems := d.checkStores(ctx)
		if ctx.Err() != nil {
			return
		}
		d.health.setSinks(problems)
		poke(d.changed)
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

func (d *daemon) checkStores(ctx context.Context) map[string]string {
	problems := map[string]string{}
	for _, s := range d.stores {
		within, cancel := context.WithTimeout(ctx, sinkTimeout)
		err := s.Check(within)
		cancel()
		if err == nil || ctx.Err() != nil {
			continue
		}
		problems[s.Name()] = err.Error()
		if d.health.sink(s.Name()) == "" {
			d.log.Warn("sink not reachable", "sink", s.Name(), "error", err)
		}
	}
	return problems
}
