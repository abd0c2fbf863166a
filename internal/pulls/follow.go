package pulls

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/pulls/codehost"
)

// Store keeps the pull requests. state.DB is one.
type Store interface {
	// FollowedPullRequests returns those that are not Final.
	FollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error)
	// UnfollowedPullRequests returns those of the journal's jobs that the store lacks.
	UnfollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error)
	SetPullRequests(ctx context.Context, pulls ...journal.PullRequest) error
}

// Host reads pull requests. codehost.Client is one.
type Host interface {
	Parse(link string) (host, repository string, number int, ok bool)
	Read(ctx context.Context, former journal.PullRequest) (journal.PullRequest, error)
	// File reads a file of the repository as it is at the pull request's Commit.
	File(ctx context.Context, p journal.PullRequest, path string) ([]byte, error)
}

// Follower follows the pull requests. Its methods are not for use at the same time.
//
// What it knows is in the store, and is stored after each read. A process that is killed
// between the two reads it once more; a row that is lost is made anew from the journal.
type Follower struct {
	// Limit is how long after its beginning a pass begins no other read; 0 means no limit.
	Limit time.Duration

	store Store
	host  Host
	now   func() time.Time
	holds map[string]hold
}

// hold is why and until when a host is not asked.
type hold struct {
	until time.Time
	kind  codehost.Kind
	// problem is what people are told; empty for our own limit.
	problem string
	// failures counts the answers in a row that were none.
	failures int
}

// New returns a follower; now is the clock.
func New(store Store, host Host, now func() time.Time) *Follower {
	return &Follower{store: store, host: host, now: now, holds: map[string]hold{}}
}

// Pass reads and stores what is due, and returns when to pass again: zero if nothing is
// followed, so the next time that a job gets a link. It never waits for a limit: it returns
// the time at which there is room. An error is that of the store, or the end of ctx; that a
// host does not answer is no error, but the Problem of what was due.
func (f *Follower) Pass(ctx context.Context) (next time.Time, err error) {
	all, err := f.followed(ctx)
	if err != nil {
		return f.now().Add(pauseStore), err
	}
	began := time.Now()
	for i := range all {
		if f.Limit > 0 && time.Since(began) >= f.Limit {
			break // the next pass begins with what is due longest
		}
		p := &all[i]
		if !due(*p, f.now()) || f.held(p.Host) {
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
		// Killed here, it is read once more.
		if err := f.store.SetPullRequests(ctx, *p); err != nil {
			return f.now().Add(pauseStore), err
		}
	}
	if err := f.mark(ctx, all); err != nil {
		return f.now().Add(pauseStore), err
	}
	return f.next(all), nil
}

// followed returns the pull requests, those that are due first, and stores what changed of
// them: those of new links, and those whose host is now asked, or no longer.
func (f *Follower) followed(ctx context.Context) ([]journal.PullRequest, error) {
	all, err := f.store.FollowedPullRequests(ctx)
	if err != nil {
		return nil, err
	}
	fresh, err := f.store.UnfollowedPullRequests(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, fresh...)
	var changed []journal.PullRequest
	for i := range all {
		if f.place(&all[i]) {
			changed = append(changed, all[i])
		}
	}
	if len(changed) > 0 {
		if err := f.store.SetPullRequests(ctx, changed...); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b journal.PullRequest) int { return a.Next.Compare(b.Next) })
	return all, nil
}

// place finds the host of the pull request and reports whether that changed anything.
func (f *Follower) place(p *journal.PullRequest) bool {
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
	forget(p, notRead)
	return true
}

// notRead is the problem of a new pull request.
const notRead = "it was not read yet"

// forget makes the state unknown, unless it is one that stays.
func forget(p *journal.PullRequest, problem string) {
	p.Problem = problem
	if !p.State.Ended() {
		p.State = journal.PullUnknown
	}
}

// take puts what was read, or why it was not, into p and reports whether that is to be stored.
func (f *Follower) take(p *journal.PullRequest, read journal.PullRequest, err error) bool {
	former, now := *p, f.now()
	*p = lasting(former, read)
	if err == nil {
		delete(f.holds, p.Host)
		answered(p, former, now)
		return true
	}
	kind := codehost.KindOf(err)
	if !kind.OfHost() {
		delete(f.holds, p.Host)
		refused(p, err.Error(), now)
		return true
	}
	f.hold(p.Host, kind, err, now)
	if kind == codehost.Transient {
		// The others come first next time: it may be this one alone that fails.
		failed(p, err.Error(), now)
		return true
	}
	return false // mark does
}

// lasting returns what was read, but leaves a merge as it was first read: no host takes one
// back, one that seems to answers from an old copy, and counters of merges must never fall.
func lasting(former, read journal.PullRequest) journal.PullRequest {
	switch {
	case former.State != journal.PullMerged:
	case read.State != journal.PullMerged:
		former.Answered = read.Answered
		return former
	case !former.Ready.IsZero(): // the times are known, not only those of the first answer
		read.Created, read.Ready, read.Reopened, read.Merged = former.Created, former.Ready, former.Reopened,
			former.Merged
	}
	return read
}

// hold keeps why a host is not asked for a while.
func (f *Follower) hold(host string, kind codehost.Kind, err error, now time.Time) {
	h := f.holds[host]
	var until time.Time
	if e, ok := errors.AsType[*codehost.Error](err); ok {
		until = e.Until
	}
	switch kind {
	case codehost.Paced:
		h.kind, h.problem, h.until = kind, "", until
		f.holds[host] = h
		return
	case codehost.NoToken, codehost.Unauthorized:
		until = now.Add(pauseToken)
	default:
		until = clock.Later(until, now.Add(min(pauseFailure<<min(h.failures, 10), longestFailure)))
	}
	f.holds[host] = hold{until: until, kind: kind, problem: err.Error(), failures: h.failures + 1}
}

func (f *Follower) held(host string) bool { return f.now().Before(f.holds[host].until) }

// mark notes at what is or will be due while its host is not asked why it is old.
func (f *Follower) mark(ctx context.Context, all []journal.PullRequest) error {
	now := f.now()
	var changed []journal.PullRequest
	for i := range all {
		p, h := &all[i], f.holds[all[i].Host]
		if p.Next.IsZero() || !p.Next.Before(h.until) || !now.Before(h.until) || h.problem == "" {
			continue
		}
		state, problem, next := p.State, p.Problem, p.Next
		p.Problem = h.problem
		switch h.kind {
		case codehost.NoToken:
			forget(p, h.problem)
		case codehost.RateLimited, codehost.Throttled:
			// The next process asks no sooner.
			p.Next = h.until
		}
		if p.State != state || p.Problem != problem || !p.Next.Equal(next) {
			changed = append(changed, *p)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return f.store.SetPullRequests(ctx, changed...)
}

// next returns when the first of them is due and its host is asked, or a beat from now: a
// pass reads all that became due since.
func (f *Follower) next(all []journal.PullRequest) (next time.Time) {
	for _, p := range all {
		if p.Next.IsZero() {
			continue
		}
		if at := clock.Later(p.Next, f.holds[p.Host].until); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if beat := f.now().Add(beat); !next.IsZero() && next.Before(beat) {
		return beat
	}
	return next
}
