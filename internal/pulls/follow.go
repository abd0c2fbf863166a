package pulls

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/journal"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// The pauses.
const (
	// beat is the least time between two passes.
	beat = 30 * time.Second
	// pauseStore follows an error of the store.
	pauseStore = time.Minute
	// pauseToken applies without a token, or where the host refuses it: people take that long to
	// replace it, and hosts often block clients that send a wrong one.
	pauseToken = 10 * time.Minute
	// pauseFailure follows the first failure of a host; it doubles up to longestFailure.
	pauseFailure   = time.Minute
	longestFailure = hour
	// longestPause is longer than any between two reads.
	longestPause = day + hour

	// afterEnd is the time from the end to the last read: a mistaken merge is reopened or
	// reverted by then.
	afterEnd = day
	// missingFor is how long a pull request may be hidden until its state is unknown,
	// pauseMissing the time between two reads until then.
	missingFor   = hour
	pauseMissing = 10 * time.Minute
	// patience is how long after its end a last read is tried.
	patience = 7 * day
)

// pullStore keeps the pull requests. state.DB is one.
type pullStore interface {
	// FollowedPullRequests returns those that are not Final.
	FollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error)
	// UnfollowedPullRequests returns the pull requests of the journal's jobs that the store lacks.
	UnfollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error)
	SetPullRequests(ctx context.Context, pulls ...journal.PullRequest) error
}

// pullReader reads pull requests. codehost.Client is one.
type pullReader interface {
	Parse(link string) (host, repository string, number int, ok bool)
	Read(ctx context.Context, former journal.PullRequest) (journal.PullRequest, error)
	// File reads a file of the repository at the pull request's Commit.
	File(ctx context.Context, p journal.PullRequest, path string) ([]byte, error)
}

// Follower follows the pull requests. Its methods are not for use at the same time.
//
// Its knowledge is in the store, and is stored after each read. A process that is killed between the two reads it
// once more; a row that is lost is made anew from the journal.
type Follower struct {
	// Limit is how long after its beginning a pass starts no other read; 0 means no limit.
	Limit time.Duration

	store pullStore
	host  pullReader
	now   func() time.Time
	// paused are the hosts that are not asked for a while.
	paused map[string]pause
}

// pause is why and until when a host is not asked.
type pause struct {
	until time.Time
	kind  codehost.Kind
	// problem is shown to people; empty for our own limit.
	problem string
	// failures counts the consecutive failures.
	failures int
}

// New returns a follower; now is the clock.
func New(store pullStore, host pullReader, now func() time.Time) *Follower {
	return &Follower{store: store, host: host, now: now, paused: map[string]pause{}}
}

// Pass reads and stores the pull requests that are due, and returns when to pass again: zero if none is followed, so
// the next time that a job gets a link. It never waits for a limit: it returns the time at which there is room. An
// error is an error of the store, or the end of ctx; that a host does not answer becomes the Problem of the pull
// requests that were due.
func (f *Follower) Pass(ctx context.Context) (next time.Time, err error) {
	all, err := f.store.FollowedPullRequests(ctx)
	if err != nil {
		return f.now().Add(pauseStore), err
	}
	fresh, err := f.store.UnfollowedPullRequests(ctx)
	if err != nil {
		return f.now().Add(pauseStore), err
	}
	all = append(all, fresh...)
	// A pause that is longer than any was set by a clock that was ahead.
	latest := f.now().Add(longestFailure)
	maps.DeleteFunc(f.paused, func(_ string, p pause) bool { return p.until.After(latest) })
	// New links, and those whose host is now asked, or no longer.
	if err := f.update(ctx, all, f.locate); err != nil {
		return f.now().Add(pauseStore), err
	}
	inOrder := make([]*journal.PullRequest, len(all))
	for i := range all {
		inOrder[i] = &all[i]
	}
	slices.SortFunc(inOrder, func(a, b *journal.PullRequest) int { return a.Next.Compare(b.Next) })
	began := time.Now()
	for _, p := range inOrder {
		if f.Limit > 0 && time.Since(began) >= f.Limit {
			break // the next pass begins with those due longest
		}
		now := f.now()
		if p.Next.IsZero() || p.Next.After(now) || now.Before(f.paused[p.Host].until) {
			continue
		}
		read, err := f.host.Read(ctx, *p)
		if err == nil {
			err = f.findPages(ctx, &read)
		}
		if ctx.Err() != nil {
			return f.now(), context.Cause(ctx)
		}
		if !f.take(p, read, err) {
			continue
		}
		// CRASH: it is read once more.
		if err := f.store.SetPullRequests(ctx, *p); err != nil {
			return f.now().Add(pauseStore), err
		}
	}
	if err := f.update(ctx, all, f.explain); err != nil {
		return f.now().Add(pauseStore), err
	}
	// A pass reads all that became due in the last beat.
	for _, p := range all {
		if at := clock.Later(p.Next, f.paused[p.Host].until); !p.Next.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if soonest := f.now().Add(beat); !next.IsZero() && next.Before(soonest) {
		return soonest, nil
	}
	return next, nil
}

// update stores those that change changes.
func (f *Follower) update(
	ctx context.Context, all []journal.PullRequest, change func(*journal.PullRequest) bool,
) error {
	var changed []journal.PullRequest
	for i := range all {
		if change(&all[i]) {
			changed = append(changed, all[i])
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return f.store.SetPullRequests(ctx, changed...)
}

// locate finds the host of the pull request and reports whether that changed anything.
func (f *Follower) locate(p *journal.PullRequest) bool {
	now := f.now()
	// A time far off was stored by a clock that was ahead.
	if far := p.Next.After(now.Add(longestPause)); p.Next.After(now) && !far {
		return false
	} else if far {
		p.Next = now
	}
	host, repository, number, ok := f.host.Parse(p.Link)
	if !ok {
		known := p.Problem == codehost.Foreign && p.Next.IsZero()
		p.Host, p.Repository, p.Number, p.Next = "", "", 0, time.Time{}
		forget(p, codehost.Foreign)
		return !known
	}
	p.Host, p.Repository, p.Number = host, repository, number
	if !p.Next.IsZero() {
		return false
	}
	p.Next = now
	forget(p, journal.NotRead)
	return true
}

// forget makes the state unknown, unless it is one that stays.
func forget(p *journal.PullRequest, problem string) {
	p.Problem = problem
	if !p.State.Ended() {
		p.State = journal.PullUnknown
	}
}

// interval is the time between two reads of a pull request that has not ended.
func interval(p journal.PullRequest, now time.Time) time.Duration {
	began := clock.Later(clock.Later(p.Created, p.Ready), p.Reopened)
	switch age := now.Sub(began); {
	case began.IsZero(), age < hour:
		return 2 * time.Minute
	case age < day:
		return 10 * time.Minute
	case age < 30*day:
		return hour
	}
	return day
}

// take puts the answer, or its error, into p, decides when to read it again, and
// reports whether to store that.
func (f *Follower) take(p *journal.PullRequest, read journal.PullRequest, err error) bool {
	former, now := *p, f.now()
	*p = lasting(former, read)
	kind := codehost.KindOf(err)
	switch {
	case err == nil:
		delete(f.paused, p.Host)
		p.Problem, p.Missing = "", time.Time{}
		if !p.State.Ended() {
			p.Next = now.Add(interval(*p, now))
			return true
		}
		// One that was seen before its end is read a day after the end was seen: at least
		// once more, whatever the two clocks say.
		end := p.Ended()
		if !former.State.Ended() && !former.Answered.IsZero() || end.After(now) {
			end = now
		}
		if p.Next = end.Add(afterEnd); !p.Next.After(now) {
			p.Next, p.Final = time.Time{}, true
		}
		return true
	case kind == codehost.Hidden:
		delete(f.paused, p.Host)
		p.Problem, p.Next = err.Error(), now.Add(pauseMissing)
		if p.Missing.IsZero() || p.Missing.After(now) {
			p.Missing = now
		}
		if now.Sub(p.Missing) >= missingFor {
			forget(p, err.Error())
			p.Next = now.Add(day)
		}
	default:
		f.pause(p.Host, kind, err, now)
		if kind != codehost.Transient {
			return false // explain does
		}
		// The others come first next time: it may be this one alone that fails.
		p.Problem, p.Next = err.Error(), now.Add(interval(*p, now))
	}
	// The last read of one that ended is not tried for ever.
	if p.State.Ended() && now.Sub(p.Ended()) > patience {
		p.Next, p.Final = time.Time{}, true
	}
	return true
}

// lasting returns the new reading, but keeps a merge as first read: no host takes one back, one
// that seems to answers from an old copy, and counters of merges must never fall.
func lasting(former, read journal.PullRequest) journal.PullRequest {
	switch {
	case former.State != journal.PullMerged:
	case read.State != journal.PullMerged:
		former.Answered = read.Answered
		return former
	case !former.Ready.IsZero(): // the times are known, not only the times in the first answer
		read.Created, read.Ready, read.Reopened, read.Merged = former.Created, former.Ready, former.Reopened,
			former.Merged
	}
	return read
}

// pause notes why a host is not asked for a while.
func (f *Follower) pause(host string, kind codehost.Kind, err error, now time.Time) {
	former := f.paused[host]
	var until time.Time
	if e, ok := errors.AsType[*codehost.Error](err); ok {
		until = e.Until
	}
	switch kind {
	case codehost.Paced:
		f.paused[host] = pause{until: until, kind: kind, failures: former.failures}
		return
	case codehost.NoToken, codehost.Unauthorized:
		until = now.Add(pauseToken)
	default:
		until = clock.Later(until, now.Add(clock.Backoff(pauseFailure, longestFailure, 2, former.failures+1)))
	}
	f.paused[host] = pause{until: until, kind: kind, problem: err.Error(), failures: former.failures + 1}
}

// explain notes why p is old if it is or will be due during a pause of its host, and
// reports whether that changed anything.
func (f *Follower) explain(p *journal.PullRequest) bool {
	h := f.paused[p.Host]
	if p.Next.IsZero() || !p.Next.Before(h.until) || !f.now().Before(h.until) || h.problem == "" {
		return false
	}
	state, problem, next := p.State, p.Problem, p.Next
	p.Problem = h.problem
	switch h.kind {
	case codehost.NoToken:
		forget(p, h.problem)
	case codehost.Limited:
		p.Next = h.until // the next process asks no sooner
	}
	return p.State != state || p.Problem != problem || !p.Next.Equal(next)
}
