// Package codehost opens pull requests for agent jobs: with GitHub's REST API,
// or locally, as files that the sandbox shows. Both accept the same branch any
// number of times and keep one open pull request for it.
//
// A local pull request lives: people review, merge, close and reopen it ([Local.Act]),
// or a [Plan] does. Its state is a function of its file and the time.
//
// The package does not run git: [GitHubConfig] has a function that pushes.
package codehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// Path is where Local's pull requests are on the sandbox; the number follows. Their
// pages are at PullRequest.WebPath too.
const Path = "/pr/"

// What Act refuses.
var (
	ErrNotFound   = errors.New("not found on this sandbox")
	ErrNotAllowed = errors.New("does not allow it")
)

// Local keeps pull requests in a directory, one JSON file each, or in memory.
// It implements [agent.Host]. Nothing is written when an event of a plan happens: it is
// in the file since the pull request was opened.
type Local struct {
	dir  string // empty = memory
	plan Plan
	now  func() time.Time

	mu    sync.Mutex
	pulls []PullRequest // by number, with what is to come
}

// OpenLocal returns the pull requests in dir, which is made with the first one;
// an empty dir keeps them in memory. Those opened from now on have the fate of plan.
func OpenLocal(dir string, plan Plan, now func() time.Time) (*Local, error) {
	l := &Local{dir: dir, plan: plan, now: now}
	for dir != "" {
		pr, err := l.load(len(l.pulls) + 1)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("pull requests: %w", err)
		}
		l.pulls = append(l.pulls, pr)
	}
	return l, nil
}

func (l *Local) file(number int) string { return filepath.Join(l.dir, strconv.Itoa(number)+".json") }

func (l *Local) load(number int) (pr PullRequest, err error) {
	text, err := os.ReadFile(l.file(number))
	if err != nil {
		return pr, err
	}
	if err := json.Unmarshal(text, &pr); err != nil {
		return pr, fmt.Errorf("%s: want a pull request as JSON: %w", l.file(number), err)
	}
	if pr.Number != number {
		return pr, fmt.Errorf("%s: has number %d; want the one of its name", l.file(number), pr.Number)
	}
	return pr, nil
}

// Propose opens a pull request of p.Branch, or replaces what the open one shows. The
// link is its path on the sandbox, without the repository's name.
func (l *Local) Propose(_ context.Context, p agent.Proposal) (link string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UTC()
	pr := PullRequest{Number: len(l.pulls) + 1, OpenedAt: now}
	pr.History = l.plan.events(pr.Number, now)
	for _, known := range slices.Backward(l.pulls) {
		if known.Branch != p.Branch {
			continue
		}
		if state := known.at(now).State(); state != Merged && state != Closed {
			pr = known
		} else if known.Head == p.Head {
			// A process that proposed it could not note that, and it has ended since.
			return Path + strconv.Itoa(known.Number), nil
		}
		break
	}
	if pr.Head != "" && pr.Head != p.Head {
		pr.History = pushed(pr, now)
	}
	pr.Project, pr.Repository, pr.Base, pr.BaseCommit = p.Project, p.Source.Repository, p.Source.Ref, p.Base
	pr.Branch, pr.Head, pr.Title, pr.Messages, pr.Diff, pr.UpdatedAt = p.Branch, p.Head, p.Title, p.Messages, p.Diff, now
	if err := l.keep(pr); err != nil {
		return "", err
	}
	return Path + strconv.Itoa(pr.Number), nil
}

// pushed returns the history of pr after a push, whose checks pass at once.
func pushed(pr PullRequest, now time.Time) []Event {
	past := pr.happened(now)
	return slices.Concat(past, []Event{{At: now, Action: PassChecks}}, pr.History[len(past):])
}

// Act does something to a pull request. What was planned for it does not happen any
// more. The error is ErrNotFound or ErrNotAllowed, or says why it cannot be written.
func (l *Local) Act(number int, action Action) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < 1 || number > len(l.pulls) {
		return fmt.Errorf("pull request %d: %w", number, ErrNotFound)
	}
	now := l.now().UTC()
	pr := l.pulls[number-1]
	if current := pr.at(now); !slices.Contains(current.Allows(), action) {
		return fmt.Errorf("pull request %d is %s and %w: %.40q", number, current.State(), ErrNotAllowed, action)
	}
	event := Event{At: now, Action: action}
	if action == Merge {
		event.DaysAgo = l.plan.DaysAgo
	}
	pr.History = append(pr.happened(now), event)
	return l.keep(pr)
}

// keep writes pr and then lets others see it: one that could not be written is as it
// was.
func (l *Local) keep(pr PullRequest) error {
	if err := l.save(pr); err != nil {
		return fmt.Errorf("pull request %d: %w", pr.Number, err)
	}
	if pr.Number > len(l.pulls) {
		l.pulls = append(l.pulls, pr)
	}
	l.pulls[pr.Number-1] = pr
	return nil
}

// save replaces the file of pr as a whole.
func (l *Local) save(pr PullRequest) error {
	if l.dir == "" {
		return nil
	}
	text, err := json.Marshal(pr)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(l.file(pr.Number), text, 0o600)
}

// Pull returns a pull request by its number as it is in a path: "12".
func (l *Local) Pull(number string) (PullRequest, bool) {
	n, err := strconv.Atoi(number)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || n < 1 || n > len(l.pulls) || strings.TrimLeft(number, "123456789") == number {
		return PullRequest{}, false
	}
	return l.pulls[n-1].at(l.now()), true
}

// Pulls returns all pull requests as they are now, by number.
func (l *Local) Pulls() []PullRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, pulls := l.now(), make([]PullRequest, len(l.pulls))
	for i, pr := range l.pulls {
		pulls[i] = pr.at(now)
	}
	return pulls
}
