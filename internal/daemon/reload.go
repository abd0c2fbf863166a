package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/schedule"
)

// A reload is a restart without the process. The daemon ends as at a SIGTERM: commits and requests in
// progress are finished, and an export continues under the next daemon, which is opened with the new
// settings. The address, the lock of the export and the metrics stay. Wrong settings are refused before
// anything ends; if the next daemon cannot be opened, the former one continues.
var (
	errReload   = errors.New("the settings are reloaded")
	errStopping = errors.New("docgauge stops: nothing was reloaded")
	errNoReload = errors.New("the settings of this process cannot be read again: restart it")
)

// flushTimeout limits writing to the state at a reload.
const flushTimeout = 15 * time.Second

// reload handles a request for a reload by HTTP. It returns when that is done.
func (s *service) reload(ctx context.Context) error {
	answer := make(chan error, 1)
	asked := s.asked
	for {
		select {
		case asked <- answer:
			asked = nil
		case err := <-answer:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.stopping:
			return errStopping
		}
	}
}

// daemons runs one daemon after the other, the next with each reload, until ctx ends.
func (s *service) daemons(ctx context.Context, hangup <-chan os.Signal) error {
	for ctx.Err() == nil {
		d := s.current.Load()
		running, end := context.WithCancelCause(ctx)
		ended := make(chan error, 1)
		go func() { ended <- d.run(running) }()
		var r *request
		for r == nil {
			select {
			case err := <-ended:
				end(nil)
				return err
			case <-hangup:
				r = s.read(d, hangup, nil)
			case answer := <-s.asked:
				r = s.read(d, hangup, []chan<- error{answer})
			}
		}
		s.log.Info("settings read: what is under way is finished first")
		end(errReload)
		err := <-ended
		if err == nil {
			err = d.app.State.Present() // the next daemon must not find another state in its place
		}
		if err != nil {
			return err // a run that does not end, or a state that is lost
		}
		s.exchange(ctx, d, r)
	}
	return nil
}

// request is a reload whose settings were read.
type request struct {
	settings config.Config
	undo     func() error
	// answers are for all who asked before the settings were read.
	answers []chan<- error
}

// read reads the settings again, while d runs. It returns nil if they are refused.
func (s *service) read(d *daemon, hangup <-chan os.Signal, answers []chan<- error) *request {
	r := &request{undo: func() error { return nil }, answers: answers}
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

// exchange puts a daemon with the new settings in the place of d, which has ended. If that fails, d
// continues.
func (s *service) exchange(ctx context.Context, d *daemon, r *request) {
	stopped := s.now()
	err := d.flush(ctx)
	var next *daemon
	if err == nil {
		next, err = s.open(ctx, r.settings)
	}
	if err != nil {
		s.refuse(r, errors.Join(err, s.freeQueue(d), r.undo()))
		d.firings, d.owed = d.remaining(d.app.Config.Schedule, stopped, s.now())
		return
	}
	next.firings, next.owed = d.remaining(r.settings.Schedule, stopped, s.now())
	next.inherit(d)
	_ = next.publish(ctx) // publishLoop meets the error again
	s.current.Store(next)
	if err := errors.Join(d.app.Close(), s.freeQueue(next)); err != nil {
		s.log.Warn("former settings not closed", "error", err)
	}
	s.values.Reloaded(true, s.now())
	next.log("settings reloaded")
	r.answer(nil)
}

// freeQueue lets other processes run the queue if the present daemon has none.
func (s *service) freeQueue(present *daemon) error {
	if present.queue != nil {
		return nil
	}
	err := s.queueLock.Release()
	s.queueLock = nil
	return err
}

// flush writes data that is only in memory. After an error the daemon must continue.
func (d *daemon) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	err := d.app.API.Flush(ctx)
	if d.queue != nil {
		err = errors.Join(err, d.queue.jobs.Flush(ctx))
	}
	return err
}

// inherit takes over what a new daemon would have to learn, so that no value is missing until then.
func (d *daemon) inherit(former *daemon) {
	d.outcomes.value = former.outcomes.get().Of(d.app.Config.Projects...)
	d.health.value.sinks = former.health.get().sinks
	now, then := d.app.Config, former.app.Config
	if slices.Equal(now.Projects, then.Projects) && slices.Equal(now.Reports, then.Reports) {
		d.missed.value = former.missed.get()
	}
	if d.queue == nil || now.PromptsDir != then.PromptsDir || !slices.Equal(now.Projects, then.Projects) {
		return // another folder, or other rules for its prompts
	}
	d.queue.jobs.Continue(former.queue.jobs)
	d.queue.stand.value = former.queue.stand.get()
}

// remaining returns the firings from now on, after d was stopped, by the schedule c, and whether the
// first is at once: if a run is owed or a firing was missed since. An unchanged schedule keeps its next
// firing, which @every does not know by itself.
func (d *daemon) remaining(c schedule.Cron, stopped, now time.Time) (f *schedule.Firings, atOnce bool) {
	coming, missed := d.firings.Coming(), false
	if !c.Same(d.app.Config.Schedule) {
		coming = c.Next(stopped)
	}
	if !coming.IsZero() && !coming.After(now) {
		coming, missed = c.Next(now), true
	}
	atOnce = d.owed || missed
	return schedule.NewFirings(c, coming, atOnce), atOnce
}

// refuse says why the former settings stay.
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
