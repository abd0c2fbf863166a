// Package codehost opens pull requests for agent jobs: with GitHub's REST API,
// or locally, as files that the sandbox shows. Both accept the same branch any
// number of times and keep one open pull request for it.
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

// Path is where Local's pull requests are on the sandbox; the number follows.
const Path = "/pr/"

// PullRequest is a pull request as Local keeps it.
type PullRequest struct {
	Number     int       `json:"number"` // from 1
	Repository string    `json:"repository"`
	Base       string    `json:"base"` // the branch it is for
	BaseCommit string    `json:"base_commit"`
	Branch     string    `json:"branch"`
	Head       string    `json:"head"`
	Title      string    `json:"title"`
	Messages   []string  `json:"messages"` // of the commits, the oldest first
	Diff       string    `json:"diff"`     // of Head against BaseCommit
	OpenedAt   time.Time `json:"opened_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// Local keeps pull requests in a directory, one JSON file each, or in memory.
// It implements [agent.Host].
type Local struct {
	dir string // empty = memory
	now func() time.Time

	mu    sync.Mutex
	pulls []PullRequest // by number
}

// OpenLocal returns the pull requests in dir, which is made with the first one;
// an empty dir keeps them in memory.
func OpenLocal(dir string, now func() time.Time) (*Local, error) {
	l := &Local{dir: dir, now: now}
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

// Propose opens the pull request of p.Branch or replaces what it shows. The
// link is its path on the sandbox.
func (l *Local) Propose(_ context.Context, p agent.Proposal) (link string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UTC()
	pr := PullRequest{Number: len(l.pulls) + 1, OpenedAt: now}
	known := slices.IndexFunc(l.pulls, func(pr PullRequest) bool { return pr.Branch == p.Branch })
	if known >= 0 {
		pr = l.pulls[known]
	}
	pr.Repository, pr.Base, pr.BaseCommit = p.Source.Repository, p.Source.Ref, p.Base
	pr.Branch, pr.Head, pr.Title, pr.Messages, pr.Diff, pr.UpdatedAt = p.Branch, p.Head, p.Title, p.Messages, p.Diff, now
	if err := l.save(pr); err != nil {
		return "", fmt.Errorf("pull request %d: %w", pr.Number, err)
	}
	if known < 0 {
		l.pulls = append(l.pulls, pr)
	} else {
		l.pulls[known] = pr
	}
	return Path + strconv.Itoa(pr.Number), nil
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
	return l.pulls[n-1], true
}

// Pulls returns all pull requests, by number.
func (l *Local) Pulls() []PullRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pulls)
}
