// Package events notifies people at DOCGAUGE_NOTIFY_URL of events in the pipeline: exports
// that fail or are late, keys that expire or are refused, other users of the quota, skipped
// windows, readers that changed, the weekly digest. It also pings the monitor at DOCGAUGE_PING_URL after an export.
//
// A [Watcher] derives every event from the state: runs, flags, counters, skipped windows and
// the ledger. The event and the fact that it was reported are entered in one transaction. A
// crash before it changes nothing: the next evaluation derives the same event. After it the
// event is in the outbox and is not derived again until its cause is over. The evaluation
// holds the export's lock; if two processes evaluated at once, the second would enter nothing
// ([state.ErrReported]), which is not an error.
//
// A [Notifier] delivers the outbox, which also holds the events of agent jobs, one POST each.
// An event leaves the outbox when the receiver answers 2xx, or after three days, which is
// logged: it arrives at least once. The attempt is entered before it is sent, so a delivery
// with an unknown result (crash, timeout, 5xx) is in doubt: the next one has the same id and
// says that it may be a repetition. Redirects are not followed. Errors and logs name the host
// of a URL only, because webhook URLs are secrets.
package events

import (
	"errors"
	"fmt"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	exportFailing   = "export_failing"
	exportLate      = "export_late"
	exportRecovered = "export_recovered"
	keyExpiring     = "key_expiring"
	keyRefused      = "key_refused"
	quotaUse        = "quota_foreign_use"
	windowsSetAside = "windows_set_aside"
	digest          = "digest"
	readersChanged  = "readers_changed"
	// test is sent by hand only.
	test = "test"
	// digestSchedule is a condition without an event: the time from which firings of the
	// digest's schedule count.
	digestSchedule = "digest_schedule"
	// readersCompared is one too: a reading of a week that was compared with the week before.
	readersCompared = "readers_compared"
)

// table has every event except the events of agent jobs, with its text. Projects have the names that people are
// shown.
var table = []struct {
	name string
	text func(e view.Event, project string) string
}{
	{exportFailing, func(e view.Event, _ string) string {
		return fmt.Sprintf("docgauge: the export has failed %d times in a row, %s: %s",
			e.Export.Failures, lastSuccess(e.Export), e.Export.LastError)
	}},
	{exportLate, func(e view.Event, _ string) string {
		text := "docgauge: the export is late, " + lastSuccess(e.Export)
		if e.Export.LastError != "" {
			text += ": " + e.Export.LastError
		}
		return text
	}},
	{exportRecovered, func(e view.Event, _ string) string {
		return "docgauge: the export is good again, since " + format.Time(e.Export.LastSuccess)
	}},
	{keyExpiring, func(e view.Event, _ string) string {
		when := fmt.Sprintf("expires in %s, on %s", format.Plural(*e.Key.DaysLeft, "day"), e.Key.Expires)
		if *e.Key.DaysLeft <= 0 {
			when = fmt.Sprintf("expired on %s", e.Key.Expires)
		}
		return fmt.Sprintf("docgauge: the key in %s %s (%[1]s_EXPIRES): make another on the API keys page of the "+
			"dashboard", e.Key.Variable, when)
	}},
	{keyRefused, func(e view.Event, _ string) string {
		return "docgauge: the service refused the key in " + e.Key.Variable +
			": it may have expired or been revoked, lack the scope, or this address is not on its IP allow-list; " +
			"`docgauge check` says what the service answers"
	}},
	{quotaUse, func(e view.Event, _ string) string {
		return fmt.Sprintf("docgauge: the service throttled %s although the budget had room: something else uses "+
			"the same quota, or DOCGAUGE_BUDGET is above it", format.Plural(e.Quota.Throttled, "request"))
	}},
	{windowsSetAside, func(e view.Event, project string) string {
		return fmt.Sprintf("docgauge: %s of %s skipped: the responses are invalid; `docgauge status` lists them",
			format.Plural(len(e.Windows), "window"), project)
	}},
	{digest, func(e view.Event, project string) string {
		return headline(e.Digest.Week, project)
	}},
	{readersChanged, func(e view.Event, project string) string {
		return headline(e.Readers.Week, project) + "; " + movedText(e.Readers)
	}},
	{test, func(view.Event, string) string {
		return "docgauge: this is a test of DOCGAUGE_NOTIFY_URL; nothing has happened"
	}},
}

func lastSuccess(e *view.Export) string {
	if e.LastSuccess.IsZero() {
		return "and none has been good so far"
	}
	return "the last good one ended at " + format.Time(e.LastSuccess)
}

// describe fills in the text of an event, and bounds its lists.
func describe(e *view.Event, project string) error {
	for _, row := range table {
		if row.name == e.Event {
			e.Text = row.text(*e, project)
			e.Windows = e.Windows[:min(len(e.Windows), namedWindows)]
			for _, a := range e.Windows {
				e.Lines = append(e.Lines, fmt.Sprintf("%s %s: %s", a.Granularity, view.Days(a.Granularity, a.Window),
					a.Detail))
			}
			if e.Digest != nil {
				e.Lines = digestLines(e.Digest)
			}
			if e.Readers != nil {
				e.Lines = readersLines(e.Readers)
			}
			return nil
		}
	}
	return errors.New("internal/events: no row for " + e.Event)
}
