package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/config"
)

// A reload is a restart without the process. The daemon ends as at a SIGTERM: what is being
// committed or sent is finished, and an export goes on under the next daemon. That one is
// opened with the new settings, while the address, the locks of the state and the metrics
// stay. Settings that are wrong are refused before anything ends; if the next daemon cannot
// be opened, the former one goes on.
var (
	errReload   = errors.New("the settings are reloaded")
	errStopping = errors.New("docgauge stops: nothing was reloaded")
	errNoReload = errors.New("the settings of this process cannot be read again: restart it")
)

// firing is what the schedule owes when a daemon begins.
type firing struct {
	// now: a run at once.
	now bool
	// at is when the schedule fires first; zero: when it says so.
	at time.Time
}

// reload is a request for a reload by HTTP. It returns when that is done.
func (s *service) reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case s.asked <- answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stopping:
		return errStopping
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stopping:
		return errStopping
	}
}

// daemons runs one daemon after the other, the next with each reload, until ctx ends.
func (s *service) daemons(ctx context.Context, hangup <-chan os.Signal, first firing) error {
	for ctx.Err() == nil {
		d := s.current.Load()
		running, end := context.WithCancelCause(ctx)
		ended := make(chan error, 1)
		go func() { ended <- d.run(running, first) }()
		var r *request
		for r == nil {
			select {
			case err := <-ended:
				end(nil)
				return err
			case <-hangup:
				r = s.read(d, hangup, nil)
			case answer := <-s.asked:
				r = s.read(d, hangup, answer)
			}
		}
		s.log.Info("settings read: what is under way is finished first")
		end(errReload)
		err := <-ended
		if err == nil {
			err = d.app.State.Present() // nobody else may find another state in its place
		}
		if err != nil {
			return err // a run that does not end, or a state that is lost
		}
		first = s.exchange(ctx, d, r)
	}
	return nil
}

// request is a reload whose settings can be taken.
type request struct {
	settings config.Config
	undo     func() error
	// answers are for everybody who asked before the settings were read.
	answers []chan<- error
}

// read reads the settings again, while d runs. It returns nil if they are refused.
func (s *service) read(d *Daemon, hangup <-chan os.Signal, answer chan<- error) *request {
	r := &request{undo: func() error { return nil }}
	if answer != nil {
		r.answers = append(r.answers, answer)
	}
	for more := true; more; {
		select {
		case another := <-s.asked:
			r.answers = append(r.answers, another)
		case <-hangup:
		default:
			more = false
		}
	}
	err := errNoReload
	if s.options.Reload != nil {
		r.settings, r.undo, err = s.options.Reload(d.app.Config)
	}
	if err != nil {
		s.refuse(r, err)
		return nil
	}
	return r
}

// exchange puts a daemon with the new settings in the place of d, which has ended, and
// returns what the schedule owes. If that fails, d is to go on.
func (s *service) exchange(ctx context.Context, d *Daemon, r *request) firing {
	stopped := s.now()
	err := d.flush(ctx)
	var next *Daemon
	if err == nil {
		next, err = s.open(ctx, r.settings)
	}
	if err != nil {
		s.refuse(r, errors.Join(err, r.undo()))
		return d.owes(d, stopped)
	}
	next.inherit(d)
	_ = next.publish(ctx) // the loop that publishes meets its error again
	s.current.Store(next)
	if err := d.app.Close(); err != nil {
		s.log.Warn("former settings not closed", "error", err)
	}
	s.values.Reloaded(true, s.now())
	next.log("settings reloaded")
	r.answer(nil)
	return d.owes(next, stopped)
}

// flush writes what is only in memory. After an error the daemon must go on.
func (d *Daemon) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	err := d.app.API.Flush(ctx)
	if d.queue != nil {
		err = errors.Join(err, d.queue.jobs.Flush(ctx))
	}
	return err
}

// flushTimeout bounds writing to the state at a reload.
const flushTimeout = 15 * time.Second

// inherit takes over what a new daemon would have to learn, so that no value is missing
// meanwhile.
func (d *Daemon) inherit(former *Daemon) {
	d.outcomes.all.Store(former.outcomes.all.Load())
	d.health.setSinks(former.health.unreachable())
	now, then := d.app.Config, former.app.Config
	if d.queue == nil || now.PromptsDir != then.PromptsDir || !slices.Equal(now.Projects, then.Projects) {
		return // another folder, or other rules for its prompts
	}
	d.queue.jobs.Continue(former.queue.jobs)
	d.queue.prompts, d.queue.refused = former.queue.stands()
}

// owes returns what the schedule owes next, which begins after d was stopped: the run that
// the stop has cut short, a firing that nobody has seen, and otherwise the next one. That of
// an unchanged schedule stays when it was, which @every does not know by itself.
func (d *Daemon) owes(next *Daemon, stopped time.Time) firing {
	f := firing{now: d.owed, at: d.due}
	if now, then := next.app.Config.Schedule, d.app.Config.Schedule; now.String() != then.String() {
		f.at = now.Next(stopped)
	}
	if !f.at.IsZero() && !f.at.After(next.app.Now()) {
		f = firing{now: true}
	}
	return f
}

// refuse tells everybody why the former settings stay.
func (s *service) refuse(r *request, err error) {
	text := err.Error()
	if problems, ok := errors.AsType[config.Problems](err); ok {
		text = strings.Join(problems, "; ")
	}
	s.values.Reloaded(false, s.now())
	s.log.Error("settings not reloaded: the former ones stay in use", "error", text)
	r.answer(err)
}

func (r *request) answer(err error) {
	for _, answer := range r.answers {
		answer <- err
	}
}
