// Package pulls follows the pull requests of the jobs: it decides which of them is due to
// be read, reads it at its host and stores what it learned.
package pulls

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// Store keeps the pull requests. state.DB is one.
type Store interface {
	PullRequests(ctx context.Context) ([]journal.PullRequest, error)
	// UnfollowedPullRequests returns those of the journal's jobs that the store lacks.
	UnfollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error)
	SetPullRequests(ctx context.Context, pulls ...journal.PullRequest) error
}

// Host reads pull requests. codehost.Client is one.
type Host interface {
	Parse(link string) (host, repository string, number int, ok bool)
	Read(ctx context.Context, former journal.PullRequest) (journal.PullRequest, error)
}

// Follower follows the pull requests. Its methods are not for use at the same time.
type Follower struct {
	store Store
	host  Host
	now   func() time.Time
}

// New returns a follower; now is the clock.
func New(store Store, host Host, now func() time.Time) *Follower {
	return &Follower{store: store, host: host, now: now}
}

// Pass reads and stores what is due, and returns when to pass again: zero if nothing is
// followed, so the next time that a job gets a link. It never waits for a limit: it returns
// the time at which there is room.
func (f *Follower) Pass(ctx context.Context) (next time.Time, err error) { return time.Time{}, nil }
