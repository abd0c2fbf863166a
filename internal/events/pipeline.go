package events

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// export_failing comes after tooManyFailures failed exports in a row, of the last seenRuns.
	tooManyFailures = 3
	seenRuns        = 20
	// export_late comes lateAfter after the last good export; in serve, after lateFirings
	// firings of its schedule without a good one.
	lateAfter   = 3 * time.Hour
	lateFirings = 4
	// A run older than DOCGAUGE_RUN_TIMEOUT plus runSlack is assumed to have ended.
	runSlack = time.Minute
	// quotaEvery is the minimum time between two events about the quota.
	quotaEvery = 24 * time.Hour
	// namedWindows is the maximum number of skipped windows that an event names.
	namedWindows = 20
)

// expiryDays are the days before a key's expiry on which it is reported.
var expiryDays = []int{0, 1, 7, 14}

// exports reports exports that fail in a row or are late, and the end of that. The good
// export before such a streak names it.
func (w *Watcher) exports(ctx context.Context, e *evaluation) error {
	runs, err := w.app.State.LastRuns(ctx, seenRuns)
	if err != nil {
		return err
	}
	success, err := w.app.State.LastSuccess(ctx, e.now)
	if err != nil {
		return err
	}
	if err := e.recovered(success); err != nil {
		return err
	}
	failed := failures(runs, success)
	about := view.Export{Failures: len(failed), LastSuccess: success}
	if len(failed) > 0 {
		about.LastError = cmp.Or(failed[0].Message, "it was killed")
	}
	failing, late := conditionOf(exportFailing, moment(success)), conditionOf(exportLate, moment(success))
	if _, known := e.reported[late]; known {
		e.live[late] = true
	}
	_, known := e.reported[failing]
	switch {
	case known || len(failed) >= tooManyFailures:
		if !e.isNew(failing) {
			return nil
		}
		return e.report(failing, 0, view.Event{Event: exportFailing, Export: &about})
	case w.isLate(e.now, runs, success) && e.isNew(late):
		return e.report(late, 0, view.Event{Event: exportLate, Export: &about})
	}
	return nil
}

// recovered reports that exports are good again, once for all failures that were reported.
func (e *evaluation) recovered(success time.Time) error {
	var first time.Time
	for condition, reported := range e.reported {
		event, before, _ := strings.Cut(condition, "/")
		if event != exportFailing && event != exportLate {
			continue
		}
		if micros, err := strconv.ParseInt(before, 10, 64); err == nil && !success.IsZero() &&
			success.UnixMicro() > micros {
			e.over(condition)
			if first.IsZero() || reported.At.Before(first) {
				first = reported.At
			}
		}
	}
	if first.IsZero() {
		return nil
	}
	return e.enter(view.Event{Event: exportRecovered, Export: &view.Export{LastSuccess: success, ToldAt: first}})
}

// failures returns the runs that failed since the last good one, newest first. A killed run
// has failed, a stopped one has not. The newest may still be running.
func failures(runs []analytics.Run, success time.Time) (out []analytics.Run) {
	for i, r := range runs {
		switch {
		case !r.Finished.IsZero() && !r.Finished.After(success), r.Outcome == state.Success,
			r.Outcome == state.Deferred:
			return out
		case r.Outcome == state.Interrupted, r.Outcome == "" && i == 0:
		default:
			out = append(out, r)
		}
	}
	return out
}

// isLate reports whether an export should have been good by now.
func (w *Watcher) isLate(now time.Time, runs []analytics.Run, success time.Time) bool {
	if len(runs) == 0 && w.served.IsZero() {
		return false
	}
	if w.served.IsZero() {
		if success.IsZero() {
			success = runs[len(runs)-1].Started
		}
		return now.Sub(success) > lateAfter // an export that was good has ended just now
	}
	if len(runs) > 0 && runs[0].Outcome == "" && !runs[0].Started.Before(w.served) &&
		now.Sub(runs[0].Started) < time.Duration(w.app.Config.RunTimeout)+runSlack {
		return false // it is under way
	}
	due := success
	if due.Before(w.served) {
		due = w.served
	}
	return w.app.Config.Schedule.Missed(lateFirings, due, now)
}

// keys reports a key that expires soon, once for each of expiryDays, and a refused one.
func (w *Watcher) keys(ctx context.Context, e *evaluation) error {
	c := w.app.Config
	if c.APIKeyExpires.Set {
		left := int(c.APIKeyExpires.Date - analytics.DateOf(e.now))
		if i := slices.IndexFunc(expiryDays, func(days int) bool { return left <= days }); i >= 0 {
			condition := conditionOf(keyExpiring, w.app.API.MarkOf(docsapi.KeyAdmin), c.APIKeyExpires.Date.String(),
				strconv.Itoa(expiryDays[i]))
			if e.isNew(condition) {
				key := view.KeyEvent{
					Name: docsapi.KeyAdmin, Variable: "DOCGAUGE_API_KEY", Expires: &c.APIKeyExpires.Date,
					DaysLeft: &left,
				}
				if err := e.report(condition, 0, view.Event{Event: keyExpiring, Key: &key}); err != nil {
					return err
				}
			}
		}
	}
	err := w.refused(ctx, e, view.KeyEvent{Name: docsapi.KeyAdmin, Variable: "DOCGAUGE_API_KEY"})
	if c.WriteAPIKey != "" && err == nil {
		err = w.refused(ctx, e, view.KeyEvent{Name: docsapi.KeyWrite, Variable: "DOCGAUGE_WRITE_API_KEY"})
	}
	return err
}

// refused reports a key that the service refused. That is over after the key was accepted
// and an export was good: a key that only one of several projects refuses is reported once.
func (w *Watcher) refused(ctx context.Context, e *evaluation, k view.KeyEvent) error {
	condition := conditionOf(keyRefused, k.Name, w.app.API.MarkOf(k.Name))
	rejected, err := w.app.API.KeyRejected(ctx, k.Name)
	if err != nil {
		return err
	}
	reported, known := e.reported[condition]
	if known && !rejected {
		success, err := w.app.State.LastSuccess(ctx, e.now)
		e.live[condition] = !success.After(reported.At)
		return err
	}
	if !rejected || !e.isNew(condition) {
		return nil
	}
	return e.report(condition, 0, view.Event{Event: keyRefused, Key: &k})
}

// quota reports that something else uses the quota, at most once in quotaEvery: the service
// throttled requests although the budget had room.
func (w *Watcher) quota(ctx context.Context, e *evaluation) error {
	counters, err := w.app.State.Counters(ctx)
	if err != nil {
		return err
	}
	var n int64
	for _, c := range counters {
		if c.Name == "api_foreign_throttles_total" {
			n += c.Value
		}
	}
	if e.isNew(quotaUse) { // earlier throttling is not reported
		e.remember(state.Reported{Condition: quotaUse, Value: n})
		return nil
	}
	last := e.reported[quotaUse]
	age := e.now.Sub(last.At)
	if n <= last.Value || age >= 0 && age < quotaEvery {
		return nil
	}
	quota := view.Quota{Throttled: n - last.Value, Since: last.At}
	return e.report(quotaUse, n, view.Event{Event: quotaUse, Quota: &quota})
}

// asides reports skipped windows, once while they are skipped, all of a project together.
func (w *Watcher) asides(ctx context.Context, e *evaluation) error {
	all, err := w.app.State.Asides(ctx)
	if err != nil {
		return err
	}
	fresh := map[string][]analytics.Aside{}
	for _, a := range all {
		if !a.Until.After(a.Since) || !slices.Contains(w.app.Config.Projects, a.Project) {
			continue // the service was down: the window is not skipped
		}
		condition := conditionOf(windowsSetAside, a.Key.String(), moment(a.Since))
		if e.isNew(condition) {
			e.remember(state.Reported{Condition: condition, At: e.now})
			fresh[a.Project] = append(fresh[a.Project], a)
		}
	}
	for _, project := range w.app.Config.Projects {
		if windows := fresh[project]; len(windows) > 0 {
			if err := e.enter(view.Event{Event: windowsSetAside, Project: project, Windows: windows}); err != nil {
				return err
			}
		}
	}
	return nil
}
