package sandbox

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
	"github.com/docgauge/docgauge/internal/site/runner"
)

// pullPath is the path of pullStore's pull requests on the sandbox; the number follows. Their pages
// are also at pullRequest.WebPath.
const pullPath = "/pr/"

// errNotAllowed: the state of a pull request does not allow an action.
var errNotAllowed = errors.New("does not allow it")

// pullStore is a pretended code host: it keeps the pull requests of agent jobs in a directory, one JSON file each, or
// in memory. It implements [runner.Host], accepts the same branch any number of times, and keeps one open pull
// request for it. A pull request lives: people review, merge, close and reopen it ([pullStore.Act]), or the plan
// does. Its state is a function of its file and the time: nothing is written when an event of a plan happens, which
// is in the file since the pull request was opened.
type pullStore struct {
	dir  string // empty = memory
	seed uint64
	plan Pulls
	now  func() time.Time

	mu    sync.Mutex
	pulls []pullRequest // by number, with planned events
}

// openPulls returns the pull requests in dir, which is made with the first one; an empty dir
// keeps them in memory. New pull requests have the fate of plan.
func openPulls(dir string, seed uint64, plan Pulls, now func() time.Time) (*pullStore, error) {
	l := &pullStore{dir: dir, seed: seed, plan: plan, now: now}
	for dir != "" {
		number := len(l.pulls) + 1
		text, err := os.ReadFile(l.file(number))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		var pr pullRequest
		if err == nil {
			err = json.Unmarshal(text, &pr)
		}
		if err == nil && pr.Number != number {
			err = fmt.Errorf("number %d: want that of the file's name", pr.Number)
		}
		if err != nil {
			return nil, fmt.Errorf("pull request %s: %w", l.file(number), err)
		}
		l.pulls = append(l.pulls, pr)
	}
	return l, nil
}

func (l *pullStore) file(number int) string {
	return filepath.Join(l.dir, strconv.Itoa(number)+".json")
}

// Propose opens a pull request of c.Branch, or replaces what the open one shows. The link is
// its path on the sandbox, without the repository's name.
func (l *pullStore) Propose(_ context.Context, j runner.Job, c runner.Change, diff string) (link string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UTC()
	pr := pullRequest{Number: len(l.pulls) + 1, OpenedAt: now}
	pr.History = l.plan.events(l.seed, pr.Number, now)
	for _, known := range slices.Backward(l.pulls) {
		if known.Branch != c.Branch {
			continue
		}
		if state := known.at(now).State(); state != stateMerged && state != stateClosed {
			pr = known
		} else if known.Head == c.Head {
			// The process ended after proposing it and before recording that, and it was
			// decided since.
			return pullPath + strconv.Itoa(known.Number), nil
		}
		break
	}
	if pr.Head != "" && pr.Head != c.Head { // a push, whose checks pass at once
		past := pr.happened(now)
		pr.History = slices.Concat(past, []pullEvent{{At: now, Action: actPassChecks}}, pr.History[len(past):])
	}
	pr.Project, pr.Repository, pr.Base, pr.BaseCommit = j.Project, j.Source.Repository, j.Source.Ref, c.Base
	pr.Branch, pr.Head, pr.Title, pr.Messages = c.Branch, c.Head, runner.Subject(j.Prompts[0]), c.Messages
	pr.Diff, pr.UpdatedAt = diff, now
	return pullPath + strconv.Itoa(pr.Number), l.write(pr)
}

// Act does something to a pull request, which ends its plan. The error is errNotAllowed, or
// says why it cannot be written.
func (l *pullStore) Act(number int, action pullAction) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, pr := l.now().UTC(), l.pulls[number-1]
	if current := pr.at(now); !slices.Contains(current.Allows(), action) {
		return fmt.Errorf("pull request %d is %s and %w: %.40q", number, current.State(), errNotAllowed, action)
	}
	event := pullEvent{At: now, Action: action}
	if action == actMerge {
		event.DaysAgo = l.plan.DaysAgo
	}
	pr.History = append(pr.happened(now), event)
	return l.write(pr)
}

// write replaces the file of pr as a whole and then shows pr: after an error it is unchanged.
func (l *pullStore) write(pr pullRequest) error {
	if l.dir != "" {
		text, err := json.Marshal(pr)
		if err == nil {
			err = os.MkdirAll(l.dir, 0o700)
		}
		if err == nil {
			err = durable.WriteFile(l.file(pr.Number), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("pull request %d: %w", pr.Number, err)
		}
	}
	if pr.Number > len(l.pulls) {
		l.pulls = append(l.pulls, pr)
	}
	l.pulls[pr.Number-1] = pr
	return nil
}

// Pull returns a pull request by its number in a path: "12".
func (l *pullStore) Pull(number string) (pullRequest, bool) {
	n, err := strconv.Atoi(number)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || n < 1 || n > len(l.pulls) || strings.TrimLeft(number, "123456789") == number {
		return pullRequest{}, false
	}
	return l.pulls[n-1].at(l.now()), true
}

// Pulls returns the current pull requests by number.
func (l *pullStore) Pulls() []pullRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, pulls := l.now(), make([]pullRequest, len(l.pulls))
	for i, pr := range l.pulls {
		pulls[i] = pr.at(now)
	}
	return pulls
}
