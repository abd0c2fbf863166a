package sandbox

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// pullPath is the path of the pull requests of a sandbox; the number follows. Their pages
// are also at fake.Pull.WebPath.
const pullPath = "/pr/"

// pullStore keeps the pull requests of agent jobs. It implements [runner.Host], accepts the same branch any number of
// times, and keeps one open pull request for it, whose fate is planned.
type pullStore struct {
	*fake.Store
	seed uint64
	plan Pulls
}

// openPulls returns the pull requests in dir; an empty dir keeps them in memory. New pull requests have the fate of
// plan.
func openPulls(dir string, seed uint64, plan Pulls, now func() time.Time) (*pullStore, error) {
	store, err := fake.OpenStore(dir, now)
	return &pullStore{store, seed, plan}, err
}

// Propose opens a pull request of c.Branch, or replaces what the open one shows. The link is
// its path on the sandbox, without the repository's name.
func (l *pullStore) Propose(_ context.Context, j runner.Job, c runner.Change, diff string) (link string, err error) {
	number, err := l.Push(fake.Pull{
		Project: j.Project, Repository: j.Source.Repository, Base: j.Source.Ref, BaseCommit: c.Base, Branch: c.Branch,
		Head: c.Head, Title: runner.Subject(j.Prompts[0]), Body: "Opened by an agent job of the docgauge sandbox.",
		Messages: c.Messages, Diff: diff,
	}, l.events)
	return pullPath + strconv.Itoa(number), err
}

// Act does something to a pull request. The plan says whether a merge is dated back.
func (l *pullStore) Act(number int, action fake.Action) error {
	e := fake.Event{Action: action}
	if action == fake.Merge {
		e.DaysAgo = l.plan.DaysAgo
	}
	return l.Store.Act(number, e)
}

// events returns the events of a pull request that is opened now, by time.
func (l *pullStore) events(number int, opened time.Time) []fake.Event {
	p, luck := l.plan, rand.New(rand.NewPCG(l.seed, uint64(number))).Float64()
	merged, closed := luck < p.MergeShare, luck >= p.MergeShare && luck < p.MergeShare+p.CloseShare
	events := []fake.Event{{At: opened, Action: fake.PassChecks}}
	ready := opened.Add(p.DraftFor)
	if p.DraftFor > 0 {
		events = append(events, fake.Event{At: opened, Action: fake.ConvertToDraft},
			fake.Event{At: ready, Action: fake.Ready})
	}
	if p.ReviewAfter > 0 {
		review := fake.RequestChanges
		if merged {
			review = fake.Approve
		}
		events = append(events, fake.Event{At: ready.Add(p.ReviewAfter), Action: review})
	}
	end := ready.Add(max(p.EndAfter, p.ReviewAfter))
	switch {
	case merged:
		events = append(events, fake.Event{At: end, Action: fake.Merge, DaysAgo: p.DaysAgo})
	case closed:
		events = append(events, fake.Event{At: end, Action: fake.Close})
	}
	return events
}

// GitHubPath is the path of the API about pull requests, which answers like GitHub's.
const GitHubPath = "/github"
