package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
)

// ErrNotAllowed: the state of a pull request does not allow an action.
var ErrNotAllowed = errors.New("does not allow it")

// Store keeps pull requests in a directory, one JSON file each, or in memory. A pull request lives: people review,
// merge, close and reopen it ([Store.Act]), or its plan does. Its state is a function of its file and the time: nothing
// is written when an event of a plan happens, which is in the file since the pull request was opened.
type Store struct {
	dir string // empty = memory
	now func() time.Time

	mu    sync.Mutex
	pulls []Pull // by number, with planned events
}

// OpenStore returns the pull requests in dir, which is made with the first one; an empty dir keeps them in memory.
func OpenStore(dir string, now func() time.Time) (*Store, error) {
	s := &Store{dir: dir, now: now}
	for dir != "" {
		number := len(s.pulls) + 1
		text, err := os.ReadFile(s.file(number))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		var pr Pull
		if err == nil {
			err = json.Unmarshal(text, &pr)
		}
		if err == nil && pr.Number != number {
			err = fmt.Errorf("number %d: want the number of the file's name", pr.Number)
		}
		if err != nil {
			return nil, fmt.Errorf("pull request %s: %w", s.file(number), err)
		}
		s.pulls = append(s.pulls, pr)
	}
	return s, nil
}

func (s *Store) file(number int) string { return filepath.Join(s.dir, strconv.Itoa(number)+".json") }

// Push opens the pull request p of a branch with its plan, or replaces what the open one shows, and returns its number.
// The same work twice, as after a crash, opens no second one, even if the first was decided since.
func (s *Store) Push(p Pull, plan func(number int, opened time.Time) []Event) (number int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UTC()
	pr := Pull{Number: len(s.pulls) + 1, OpenedAt: now}
	pr.History = plan(pr.Number, now)
	for _, known := range slices.Backward(s.pulls) {
		if known.Branch != p.Branch {
			continue
		}
		if known.asOf(now).isOpen() {
			pr = known
		} else if known.Head == p.Head {
			return known.Number, nil
		}
		break
	}
	if pr.Head != "" && pr.Head != p.Head { // a push, whose checks pass at once
		past := pr.happened(now)
		pr.History = slices.Concat(past, []Event{{At: now, Action: PassChecks}}, pr.History[len(past):])
	}
	p.Number, p.OpenedAt, p.UpdatedAt, p.History = pr.Number, pr.OpenedAt, now, pr.History
	return p.Number, s.write(p)
}

// Add adds a pull request with the next number to a store in memory. Without an OpenedAt it is opened now; actions
// happen as it is opened.
func (s *Store) Add(p Pull, actions ...Action) Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(p, actions...)
}

func (s *Store) add(p Pull, actions ...Action) Pull {
	if p.Number = len(s.pulls) + 1; p.OpenedAt.IsZero() {
		p.OpenedAt = s.now().UTC()
	}
	p.UpdatedAt = p.OpenedAt
	for _, a := range actions {
		p.History = append(p.History, Event{At: p.OpenedAt, Action: a})
	}
	s.pulls = append(s.pulls, p)
	return p
}

// Change changes a pull request in memory as no person could.
func (s *Store) Change(number int, change func(*Pull)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.pulls[number-1])
}

// Act does something to a pull request, now unless e has a time, which ends its plan. The error is ErrNotAllowed, or
// says why it cannot be written.
func (s *Store) Act(number int, e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, pr := s.now().UTC(), s.pulls[number-1]
	if e.At.IsZero() {
		e.At = now
	}
	if current := pr.asOf(now); !slices.Contains(current.Allows(), e.Action) {
		return fmt.Errorf("pull request %d is %s and %w: %.40q", number, current.State(), ErrNotAllowed, e.Action)
	}
	pr.History = append(pr.happened(now), e)
	return s.write(pr)
}

// write replaces the file of pr as a whole and then shows pr: after an error it is unchanged.
func (s *Store) write(pr Pull) error {
	if s.dir != "" {
		text, err := json.Marshal(pr)
		if err == nil {
			err = os.MkdirAll(s.dir, 0o700)
		}
		if err == nil {
			err = durable.WriteFile(s.file(pr.Number), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("pull request %d: %w", pr.Number, err)
		}
	}
	if pr.Number > len(s.pulls) {
		s.pulls = append(s.pulls, pr)
	}
	s.pulls[pr.Number-1] = pr
	return nil
}

// Pull returns a pull request by its number in a path: "12".
func (s *Store) Pull(number string) (Pull, bool) {
	n, err := strconv.Atoi(number)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || n < 1 || n > len(s.pulls) || strings.TrimLeft(number, "123456789") == number {
		return Pull{}, false
	}
	return s.pulls[n-1].asOf(s.now()), true
}

// Pulls returns the current pull requests by number.
func (s *Store) Pulls() []Pull {
	return slices.SortedFunc(s.newest(), func(a, b Pull) int { return a.Number - b.Number })
}

// newest goes through the current pull requests, the newest first. The body of the loop must not use s.
func (s *Store) newest() iter.Seq[Pull] {
	return func(yield func(Pull) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := s.now()
		for _, pr := range slices.Backward(s.pulls) {
			if !yield(pr.asOf(now)) {
				return
			}
		}
	}
}
