// Package events decides what people are told of the pipeline, by DOCGAUGE_NOTIFY_URL:
// that exports fail or are late, that a key expires or is refused, that something else
// uses the quota, that windows are set aside, and the digest of a week.
//
// Nothing is remembered but what the state holds, and every event is derived from it:
// from the runs, the flags and counters, the windows that are set aside, and the ledger.
// The event and the fact that people were told of its matter are entered in one
// transaction. A crash before it changes nothing, and the next evaluation derives the
// same event again; after it the event is in the outbox, and its matter is not told of
// again until it is over. So the transaction that causes an event need not know of it.
//
// The export's lock is held by whoever evaluates, so two processes never do at a time;
// if they did, the second would enter nothing ([state.ErrTold]), and that is no error.
//
// It sends nothing: package notify delivers what is in the outbox.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// The events; a matter is an event and what it is about.
const (
	exportFailing   = "export_failing"
	exportLate      = "export_late"
	exportRecovered = "export_recovered"
	keyExpiring     = "key_expiring"
	keyRefused      = "key_refused"
	quotaUse        = "quota_foreign_use"
	windowsSetAside = "windows_set_aside"
	digest          = "digest"
	// digestSchedule is the matter that holds since when the firings of a schedule
	// count; nobody is told of it.
	digestSchedule = "digest_schedule"
)

// Event is the body of a notification; its keys are stable. It has one of the parts.
type Event struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	// Text is for people, in one line; Lines are more of it.
	Text  string   `json:"text"`
	Lines []string `json:"lines,omitempty"`
	// Project and its name are empty where the event is about all projects.
	Project     string `json:"project,omitempty"`
	ProjectName string `json:"project_name,omitempty"`

	Export  *Export           `json:"export,omitempty"`
	Key     *Key              `json:"key,omitempty"`
	Quota   *Quota            `json:"quota,omitempty"`
	Windows []analytics.Aside `json:"windows,omitempty"`
	Digest  *Digest           `json:"digest,omitempty"`
}

// Export is how exports stand.
type Export struct {
	// Failures counts the exports that failed since the last good one.
	Failures    int       `json:"failures,omitempty"`
	LastError   string    `json:"last_error,omitempty"`
	LastSuccess time.Time `json:"last_success_at,omitzero"`
	// ToldAt is when people were told of the failures that are over.
	ToldAt time.Time `json:"told_at,omitzero"`
}

// Key is a key that expires or was refused.
type Key struct {
	Name     string          `json:"name"`
	Variable string          `json:"variable"`
	Expires  *analytics.Date `json:"expires,omitempty"`
	DaysLeft *int            `json:"days_left,omitempty"`
}

// Quota is what the service throttled although the budget had room.
type Quota struct {
	Throttled int64     `json:"requests_throttled"`
	Since     time.Time `json:"since,omitzero"`
}

// Watcher tells people of what happens.
type Watcher struct {
	app *app.App
	// served is since when serve runs; zero for a single export.
	served time.Time
}

// New returns what watches the pipeline of a: of a docgauge serve that runs since
// served, or of a single export if that is zero.
func New(a *app.App, served time.Time) *Watcher { return &Watcher{app: a, served: served} }

// Begin enters from when on things count, before the first run: foreign use of the
// quota, and firings of the digest.
func (w *Watcher) Begin(ctx context.Context) error {
	return w.evaluate(ctx, func(ctx context.Context, t *teller) error {
		t.keepAll()
		w.firingsCount(t)
		if _, known := t.told[quotaUse]; !known {
			return w.quota(ctx, t)
		}
		return nil
	})
}

// Evaluate enters what is to be told now. A single export calls it after its run, serve
// each minute and after each run.
func (w *Watcher) Evaluate(ctx context.Context) error {
	return w.evaluate(ctx, func(ctx context.Context, t *teller) error {
		var errs []error
		for _, derive := range []func(context.Context, *teller) error{w.exports, w.keys, w.quota, w.asides, w.digests} {
			errs = append(errs, derive(ctx, t)) // what one cannot say the others can
		}
		return errors.Join(errs...)
	})
}

// evaluate lets derive fill a teller, and enters the result.
func (w *Watcher) evaluate(ctx context.Context, derive func(context.Context, *teller) error) error {
	told, err := w.app.State.Told(ctx)
	if err != nil {
		return err
	}
	t := &teller{w: w, now: w.app.Now().UTC().Truncate(time.Second), told: told, live: map[string]bool{}}
	err = derive(ctx, t)
	if err != nil {
		t.keepAll() // what could not be read may go on
	}
	for matter := range told {
		if !t.live[matter] {
			t.out.Over = append(t.out.Over, matter)
		}
	}
	if len(t.out.Told)+len(t.out.Over)+len(t.out.Notes) == 0 {
		return err
	}
	if entered := w.app.State.Tell(ctx, t.out); !errors.Is(entered, state.ErrTold) {
		err = errors.Join(err, entered)
	}
	return err
}

// teller collects what is told at one moment.
type teller struct {
	w    *Watcher
	now  time.Time
	told map[string]state.Told
	// live are the matters that are not over.
	live map[string]bool
	out  state.Telling
}

// keepAll takes no matter to be over.
func (t *teller) keepAll() {
	for matter := range t.told {
		t.live[matter] = true
	}
}

// isNew says that a matter goes on, and reports whether nobody was told of it.
func (t *teller) isNew(matter string) bool {
	t.live[matter] = true
	_, known := t.told[matter]
	return !known
}

// over says that a matter has ended, whatever else cannot be read.
func (t *teller) over(matter string) {
	t.live[matter] = true // it is not to be ended twice
	t.out.Over = append(t.out.Over, matter)
}

// remember enters a matter.
func (t *teller) remember(matter state.Told) {
	t.live[matter.Matter] = true
	t.out.Told = append(t.out.Told, matter)
}

// tell enters an event.
func (t *teller) tell(e Event) error {
	e.At = t.now
	if e.Project != "" {
		if name := t.w.app.Config.ProjectNames.Of(e.Project); name != e.Project {
			e.ProjectName = name
		}
	}
	body, err := json.Marshal(e)
	if err == nil {
		t.out.Notes = append(t.out.Notes, journal.Note{Kind: e.Event, At: t.now, Body: body})
	}
	return err
}

// matterOf names a matter.
func matterOf(event string, about ...string) string {
	return strings.Join(append([]string{event}, about...), "/")
}

// moment is a time in the name of a matter.
func moment(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}
