package events

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/htmlview"
	"github.com/docgauge/docgauge/internal/state"
)

const (
	// tooManyFailures is how many exports fail in a row before people are told.
	tooManyFailures = 3
	// seenRuns is how many runs are looked at for that.
	seenRuns = 20
	// lateAfter is how long after the last successful export we report a missed one.
	// serve reports it after lateFirings firings of its schedule without a success.
	lateAfter   = 3 * time.Hour
	lateFirings = 4
	// runSlack is how long after DOCGAUGE_RUN_TIMEOUT a run may still be under way.
	runSlack = time.Minute
	// quotaEvery is the least time between two events about the quota.
	quotaEvery = 24 * time.Hour
	// namedWindows is how many windows that are set aside a message names.
	namedWindows = 20
)

// expiryDays are the days before a key expires on which people are told.
var expiryDays = []int{0, 1, 7, 14}

// exports tells of exports that fail in a row or are late, and of their end. Such a
// streak is named by the good export before it.
func (w *Watcher) exports(ctx context.Context, t *teller) error {
	runs, err := w.app.State.LastRuns(ctx, seenRuns)
	if err != nil {
		return err
	}
	success, err := w.app.State.LastSuccess(ctx, t.now)
	if err != nil {
		return err
	}
	if err := t.recovered(success); err != nil {
		return err
	}
	failed := failures(runs, success)
	about := Export{Failures: len(failed), LastSuccess: success}
	if len(failed) > 0 {
		about.LastError = cmp.Or(failed[0].Message, "it was killed")
	}
	failing, late := matterOf(exportFailing, moment(success)), matterOf(exportLate, moment(success))
	if _, known := t.told[late]; known {
		t.live[late] = true
	}
	_, known := t.told[failing]
	switch {
	case known || len(failed) >= tooManyFailures:
		if !t.isNew(failing) {
			return nil
		}
		t.remember(state.Told{Matter: failing, At: t.now})
		return t.tell(Event{
			Event: exportFailing, Export: &about,
			Text: fmt.Sprintf("docgauge: the export has failed %d times in a row, %s: %s", len(failed), since(success), about.LastError),
		})
	case w.isLate(t.now, runs, success) && t.isNew(late):
		t.remember(state.Told{Matter: late, At: t.now})
		return t.tell(Event{
			Event: exportLate, Export: &about,
			Text: "docgauge: the export is late, " + since(success) + reason(about.LastError),
		})
	}
	return nil
}

func since(success time.Time) string {
	if success.IsZero() {
		return "and none has been good so far"
	}
	return "the last good one ended at " + format.Time(success)
}

func reason(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// recovered tells that exports are good again, once for all that people were told.
func (t *teller) recovered(success time.Time) error {
	var first time.Time
	for matter, told := range t.told {
		event, before, _ := strings.Cut(matter, "/")
		if event != exportFailing && event != exportLate {
			continue
		}
		if micros, err := strconv.ParseInt(before, 10, 64); err == nil && !success.IsZero() && success.UnixMicro() > micros {
			t.over(matter)
			if first.IsZero() || told.At.Before(first) {
				first = told.At
			}
		}
	}
	if first.IsZero() {
		return nil
	}
	return t.tell(Event{
		Event: exportRecovered, Export: &Export{LastSuccess: success, ToldAt: first},
		Text: "docgauge: the export is good again, since " + format.Time(success),
	})
}

// failures returns the runs that failed since the last good one, newest first. One that
// was killed has failed; one that was stopped has not. The newest may be under way.
func failures(runs []state.Run, success time.Time) (out []state.Run) {
	for i, r := range runs {
		switch {
		case !r.Finished.IsZero() && !r.Finished.After(success), r.Outcome == state.Success, r.Outcome == state.Deferred:
			return out
		case r.Outcome == state.Interrupted, r.Outcome == "" && i == 0:
		default:
			out = append(out, r)
		}
	}
	return out
}

// isLate reports whether an export should have been good by now.
func (w *Watcher) isLate(now time.Time, runs []state.Run, success time.Time) bool {
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
	for range lateFirings {
		due = w.app.Config.Schedule.Next(due)
	}
	return !due.IsZero() && now.After(due)
}

// keys tells of a key that expires soon, once for each number of days, and of one that
// was refused.
func (w *Watcher) keys(ctx context.Context, t *teller) error {
	c := w.app.Config
	if c.APIKeyExpires.Set {
		left := int(c.APIKeyExpires.Date - analytics.DateOf(t.now))
		if i := slices.IndexFunc(expiryDays, func(days int) bool { return left <= days }); i >= 0 {
			matter := matterOf(keyExpiring, w.app.API.MarkOf(docsapi.KeyAdmin), c.APIKeyExpires.Date.String(), strconv.Itoa(expiryDays[i]))
			if t.isNew(matter) {
				t.remember(state.Told{Matter: matter, At: t.now})
				if err := t.tell(expiryEvent(c.APIKeyExpires.Date, left)); err != nil {
					return err
				}
			}
		}
	}
	err := w.refused(ctx, t, Key{Name: docsapi.KeyAdmin, Variable: "DOCGAUGE_API_KEY"})
	if c.WriteAPIKey != "" && err == nil {
		err = w.refused(ctx, t, Key{Name: docsapi.KeyWrite, Variable: "DOCGAUGE_WRITE_API_KEY"})
	}
	return err
}

func expiryEvent(date analytics.Date, left int) Event {
	when := fmt.Sprintf("expires in %s, on %s", format.Plural(left, "day"), date)
	if left <= 0 {
		when = fmt.Sprintf("expired on %s", date)
	}
	return Event{
		Event: keyExpiring, Key: &Key{Name: docsapi.KeyAdmin, Variable: "DOCGAUGE_API_KEY", Expires: &date, DaysLeft: &left},
		Text: "docgauge: the key in DOCGAUGE_API_KEY " + when + " (DOCGAUGE_API_KEY_EXPIRES): make another on the API keys page of the dashboard",
	}
}

// refused tells of a key that the service refused. That is over once the key was
// accepted and an export was good: where one project refuses it and another does not,
// people are told once.
func (w *Watcher) refused(ctx context.Context, t *teller, k Key) error {
	matter := matterOf(keyRefused, k.Name, w.app.API.MarkOf(k.Name))
	rejected, err := w.app.API.KeyRejected(ctx, k.Name)
	if err != nil {
		return err
	}
	told, known := t.told[matter]
	if known && !rejected {
		success, err := w.app.State.LastSuccess(ctx, t.now)
		t.live[matter] = !success.After(told.At)
		return err
	}
	if !rejected || !t.isNew(matter) {
		return nil
	}
	t.remember(state.Told{Matter: matter, At: t.now})
	return t.tell(Event{
		Event: keyRefused, Key: &k,
		Text: "docgauge: the service refused the key in " + k.Variable + ": it may have expired or been revoked, lack the scope, " +
			"or this address is not on its IP allow-list; `docgauge check` says what the service answers",
	})
}

// throttled is how many requests the service has throttled although the budget had room.
func (w *Watcher) throttled(ctx context.Context) (n int64, err error) {
	counts, err := w.app.State.Counters(ctx)
	for _, c := range counts {
		if c.Name == "api_foreign_throttles_total" {
			n += c.Value
		}
	}
	return n, err
}

// quota tells, once a day at most, that something else uses the quota. What came since
// the last time is told of a day later.
func (w *Watcher) quota(ctx context.Context, t *teller) error {
	n, err := w.throttled(ctx)
	if err != nil {
		return err
	}
	if t.isNew(quotaUse) { // what was throttled before people wanted to be told
		t.remember(state.Told{Matter: quotaUse, Value: n})
		return nil
	}
	last := t.told[quotaUse]
	age := t.now.Sub(last.At)
	if n <= last.Value || age >= 0 && age < quotaEvery {
		return nil
	}
	t.remember(state.Told{Matter: quotaUse, At: t.now, Value: n})
	fresh := n - last.Value
	return t.tell(Event{
		Event: quotaUse, Quota: &Quota{Throttled: fresh, Since: last.At},
		Text: fmt.Sprintf("docgauge: the service throttled %s although the budget had room: something else uses the same quota, "+
			"or DOCGAUGE_BUDGET is above it", format.Plural(fresh, "request")),
	})
}

// asides tells of windows that are set aside, once while they are, all of a project at
// once.
func (w *Watcher) asides(ctx context.Context, t *teller) error {
	all, err := w.app.State.Asides(ctx)
	if err != nil {
		return err
	}
	fresh := map[string][]analytics.Aside{}
	for _, a := range all {
		if !a.Until.After(a.Since) || !slices.Contains(w.app.Config.Projects, a.Project) {
			continue // the service was down: the window does not rest
		}
		matter := matterOf(windowsSetAside, a.Key.String(), moment(a.Since))
		if t.isNew(matter) {
			t.remember(state.Told{Matter: matter, At: t.now})
			fresh[a.Project] = append(fresh[a.Project], a)
		}
	}
	for _, project := range w.app.Config.Projects {
		windows := fresh[project]
		if len(windows) == 0 {
			continue
		}
		e := Event{
			Event: windowsSetAside, Project: project, Windows: windows[:min(len(windows), namedWindows)],
			Text: fmt.Sprintf("docgauge: %s of %s skipped: the responses are invalid; `docgauge status` lists them",
				format.Plural(len(windows), "window"), w.app.Config.ProjectNames.Of(project)),
		}
		for _, a := range e.Windows {
			e.Lines = append(e.Lines, fmt.Sprintf("%s %s: %s", a.Granularity, htmlview.Days(a.Granularity, a.Window), a.Detail))
		}
		if err := t.tell(e); err != nil {
			return err
		}
	}
	return nil
}
