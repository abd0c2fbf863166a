package schedule

import (
	"fmt"
	"math"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// MaxReadings is the number of readings that a drifting window gets. The last one accepts whatever
// comes, and is committed unverified.
const MaxReadings = 3

// Learned has what earlier runs found out about each series of windows.
type Learned map[Series]map[Fact]Noted

// Fact names something that is known of a series. In the state each is a number and a time.
type Fact string

// The facts. The first three are how often in a row windows moved, 0 if the last one held still.
const (
	// movedBetween, movedRipe: between two runs, before they could settle and after that.
	movedBetween Fact = "between"
	movedRipe    Fact = "between-ripe"
	// MovedWithin: while one run read them.
	MovedWithin Fact = "within"
	// HeldBack is the date on which a window begins that is not begun although it is due, since that
	// time: it waits for an hour with enough budget for all of it.
	HeldBack Fact = "held-back"
	// LeastPages is the least number of pages of a window of the series, if none could be read
	// completely yet.
	LeastPages Fact = "at-least"
	// DayPages is the number of pages that one answer about a day indicates: 1 means exactly one, 2
	// means at least two. It estimates windows before anything was read ([Sizes.SetChecked]).
	DayPages Fact = "day-pages"
	// DataFrom is the first day of which the service has data of a project ([Learned.DataFrom]); of the series of
	// [DataSeries].
	DataFrom Fact = "data-from"
	// Lacking: the service lacks a report of a project, and said so at the time ([Learned.Lacks]); of a
	// series without a granularity.
	Lacking Fact = "lacking"
	// Refused is how often in a row the service refused a source (401, 403) with a key that it accepted for
	// others, and when it did so last ([Learned.Refused]); of a series without a granularity.
	Refused Fact = "refused"
	// PageSize is the number of rows that the service puts on a page of a source, where they are fewer than were
	// requested. After movementLasts it is found out anew.
	PageSize Fact = "page-size"
	// WholePage is the same number, once a window of so many rows was found to be whole.
	WholePage Fact = "whole-page"
	// DatesHold: 1 means that the service has no visitors in an empty window of the project, or does not answer
	// that.
	DatesHold Fact = "dates-hold"
)

// Noted is what is known of a fact, and since when; without a time, nothing is known.
type Noted struct {
	N  int
	At time.Time
}

// lackingLasts is how long a report that a service lacks is not requested again.
const lackingLasts = 24 * time.Hour

// Lacks returns until when nothing of a source is requested because the service lacks it, and whether
// that is so.
func (l Learned) Lacks(source Source, now time.Time) (until time.Time, yes bool) {
	at := l[Series{Source: source}][Lacking].At
	until = at.Add(lackingLasts)
	return until, !at.IsZero() && now.Before(until)
}

// Refused returns when the service refused a source last, or all of its project, and until when nothing of
// it is requested for that reason; zero times where the service does not refuse it.
func (l Learned) Refused(source Source) (at, until time.Time) {
	for _, of := range []Source{source, {Project: source.Project}} {
		if n := l[Series{Source: of}][Refused]; n.N > 0 && n.At.Add(pause(n.N)).After(until) {
			at, until = n.At, n.At.Add(pause(n.N))
		}
	}
	return at, until
}

// KnowsPageSize reports whether the number of rows on a page, of which the state has the last, is to be believed.
func (l Learned) KnowsPageSize(source Source, now time.Time) bool {
	at := l[Series{Source: source}][PageSize].At
	return at.IsZero() || now.Sub(at) < movementLasts
}

// IsFault reports whether a fact says that the service lacks or refuses something.
func (f Fact) IsFault() bool { return f == Lacking || f == Refused }

// unknownData is the number of DataFrom where the service does not say.
const unknownData = math.MinInt32

// DataFrom returns the first day of which the service has data of a project, [analytics.NoData] without any, and
// whether its last answer said so.
func (l Learned) DataFrom(project string) (day analytics.Date, known bool) {
	n := l[DataSeries(project)][DataFrom]
	return analytics.Date(n.N), !n.At.IsZero() && n.N != unknownData
}

// DataSeries is the series that has DataFrom of a project.
func DataSeries(project string) Series { return Series{Source: Source{Project: project}} }

// DataNumber is the number of DataFrom for what an answer says.
func DataNumber(day *analytics.Date) int {
	if day == nil {
		return unknownData
	}
	return int(*day)
}

// Set records a fact from the state.
func (l Learned) Set(s Series, f Fact, n int, now time.Time) {
	if l[s] == nil {
		l[s] = map[Fact]Noted{}
	}
	l[s][f] = Noted{n, now}
}

// Of returns what is known of a fact.
func (l Learned) Of(s Series, f Fact) Noted { return l[s][f] }

const (
	// movementLasts is the time for which a movement counts: services change.
	movementLasts = 28 * 24 * time.Hour
	// longestHold is the maximum time for which a window is deferred: by then the whole budget was
	// free once, unless something else uses it all the time.
	longestHold = 2 * time.Hour
	// restless is the number of movements in a row within runs after which the next window of a
	// series is not even begun: two windows that drifted in all their readings.
	restless = 2 * (MaxReadings - 1)
	// minuteLayout is the format of times for people.
	minuteLayout = "2006-01-02 15:04"
)

// Policy decides how much of a window is worth reading while it can still move. The
// zero Policy reads everything at once. docs/dev/architecture.md states its worst case.
type Policy struct {
	// Limit is the number of requests in an hour; 0 is unlimited.
	Limit int
	// Settle is the time after its end during which a window can still change.
	Settle time.Duration
	// Learned returns what is known of a fact; nil: nothing.
	Learned func(Series, Fact) Noted
}

// Ripe reports whether a window can no longer change.
func (p Policy) Ripe(w analytics.Window, now time.Time) bool { return ripe(w, p.Settle, now) }

// BetweenRuns is the kind of a movement of w between two runs, at the given time.
func (p Policy) BetweenRuns(w analytics.Window, now time.Time) Fact {
	if p.Ripe(w, now) {
		return movedRipe
	}
	return movedBetween
}

func (p Policy) learned(k analytics.Key, f Fact) Noted {
	if p.Learned == nil {
		return Noted{}
	}
	return p.Learned(SeriesOf(k), f)
}

// moved returns how often in a row windows moved, and whether any was observed lately.
func (p Policy) moved(k analytics.Key, how Fact, now time.Time) (times int, seen bool) {
	n := p.learned(k, how)
	return n.N, !n.At.IsZero() && now.Sub(n.At) < movementLasts
}

// HeldBackSince returns since when the window waits for an hour's budget, alone in its series,
// the zero time if it does not.
func (p Policy) HeldBackSince(k analytics.Key) time.Time {
	if held := p.learned(k, HeldBack); held.N == int(k.From) {
		return held.At
	}
	return time.Time{}
}

// TotalsFirst reports whether only the totals of a window with so many pages are
// read now, with one request, and its rows when it has settled, because its
// pages would not stay parts of one reading. why explains that to people.
//
//   - A window that takes longer than an hour's budget is tried once; when one of
//     its series has moved between two runs, the next ones are not.
//   - A window whose worst case, all its readings, takes longer than an hour's
//     budget is not begun once two of its series in a row drifted in all of theirs.
func (p Policy) TotalsFirst(k analytics.Key, pages int, now time.Time) (why string, yes bool) {
	if p.Limit == 0 || p.Ripe(k.Window, now) {
		return "", false
	}
	pages = max(pages, p.learned(k, LeastPages).N)
	rows := rowsFrom(k.Window, p.Settle)
	if times, seen := p.moved(k, movedBetween, now); seen && times > 0 && pages > p.Limit {
		return fmt.Sprintf("totals now, %s: %d pages are more than an hour's budget, and such windows moved",
			rows, pages), true
	}
	if times, seen := p.moved(k, MovedWithin, now); seen && times >= restless && MaxReadings*pages > p.Limit {
		return fmt.Sprintf("totals now, %s: %d pages, and such windows move while they are read", rows, pages), true
	}
	return "", false
}

// rowsFrom says when the rows of a window are read that is first read for its totals.
func rowsFrom(w analytics.Window, settle time.Duration) string {
	return "rows from " + w.To.Time().Add(settle).UTC().Format(minuteLayout)
}

// Defers reports whether a window that needs so many requests should not be begun with so
// few free: its pages would be lost when it moves, and within the hour it can be read
// completely. No window is deferred for longer than two hours.
func (p Policy) Defers(k analytics.Key, requests, free int, now time.Time) bool {
	if p.Limit == 0 || requests <= free || requests > p.Limit {
		return false
	}
	if since := p.HeldBackSince(k); !since.IsZero() && now.Sub(since) >= longestHold {
		return false
	}
	kind := p.BetweenRuns(k.Window, now)
	times, seen := p.moved(k, kind, now)
	if !seen {
		return kind == movedBetween // a window that can move is expected to
	}
	return times > 0
}

const (
	// firstPause is the pause of a window after its first failure: less than an hour, so that an
	// hourly run finds it due again. Further failures double it up to maxPause.
	firstPause = 55 * time.Minute
	maxPause   = 24 * time.Hour
	// maxEmpty is how often a window without rows, whose former rows are kept, is read again.
	maxEmpty = 3
)

// Rest returns how long a window rests after its last failure. A window for which the service sends no rows rests
// for a day, for two and for four days, and is then read only when it is named.
func Rest(a analytics.Aside) time.Duration {
	const ever = 100 * 365 * 24 * time.Hour
	switch {
	case GivenUp(a):
		return ever
	case a.Reason == analytics.AsideEmpty:
		return maxPause << (a.Failures - 1)
	}
	return pause(a.Failures)
}

// pause is how long nothing is requested after so many failures.
func pause(failures int) time.Duration { return min(maxPause, firstPause<<min(max(failures-1, 0), 8)) }

// GivenUp reports whether a window is read only when it is named.
func GivenUp(a analytics.Aside) bool {
	return a.Reason == analytics.AsideEmpty && a.Failures > maxEmpty
}
