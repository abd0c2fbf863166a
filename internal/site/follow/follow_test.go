package follow

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server writes a log, and rotates it in one of several ways. Every line is different, but those that begin with #.
type server struct {
	t     *testing.T
	rnd   *rand.Rand
	style string
	path  string // of the live log
	out   *os.File
	rest  string // of a line that was begun
	count int
	lines []string
	lost  map[string]bool // lines that nobody may have kept: true if that was to be said
	now   time.Time

	archive string // being made of plain
	plain   string
	packed  []byte
	copied  string // being made of the live log
	atCopy  int    // size of the live log then
	isSeen  bool
	seen    func() // has all lines read and kept
}

func (s *server) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) open() {
	var err error
	if s.style == "link" {
		target := filepath.Join(filepath.Dir(s.path), "days", fmt.Sprintf("%d.txt", s.count))
		s.check(os.MkdirAll(filepath.Dir(target), 0o700))
		_ = os.Remove(s.path)
		s.check(os.Symlink(target, s.path))
	}
	s.out, err = os.OpenFile(s.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.check(err)
	if info, err := s.out.Stat(); err == nil && info.Size() == 0 && s.style == "headers" {
		s.print("#Fields: all of them\n")
	}
}

func (s *server) print(text string) {
	_, err := s.out.WriteString(text)
	s.check(err)
}

// write writes some lines, the last of which may be a part of one.
func (s *server) write() {
	for range 1 + s.rnd.IntN(4) {
		s.finish()
		size := 1 + s.rnd.IntN(40)
		switch s.rnd.IntN(200) {
		case 0:
			size = 600 << 10
		case 1, 2, 3, 4, 5, 6, 7, 8, 9:
			size = 3000
		}
		s.count++
		line := fmt.Sprintf("%06d %s", s.count, strings.Repeat("x", size))
		s.lines = append(s.lines, line)
		if s.copied != "" {
			s.lost[line] = s.isSeen
		}
		cut := len(line)
		if s.rnd.IntN(4) == 0 {
			cut = s.rnd.IntN(cut)
		}
		s.print(line[:cut])
		s.rest = line[cut:] + "\n"
	}
	if s.rnd.IntN(3) > 0 {
		s.finish()
	}
}

// finish ends a line that was begun.
func (s *server) finish() {
	if s.rest != "" {
		s.print(s.rest)
		s.rest = ""
	}
}

// shift renames every rotated log to make room for the next.
func (s *server) shift() {
	for i := 20; i > 0; i-- {
		for _, ext := range []string{"", ".gz"} {
			from := fmt.Sprintf("%s.%d%s", s.path, i, ext)
			if _, err := os.Lstat(from); err == nil {
				s.check(os.Rename(from, fmt.Sprintf("%s.%d%s", s.path, i+1, ext)))
			}
		}
	}
}

// rotate does the next thing of a rotation.
func (s *server) rotate() {
	switch {
	case s.archive != "": // gzip is done
		s.check(os.WriteFile(s.archive, s.packed, 0o600))
		s.check(os.Remove(s.plain))
		s.archive = ""
	case s.style == "link": // only what was seen once is found again
		s.write()
		s.finish()
		s.seen()
		s.write()
		s.finish()
		s.check(s.out.Close())
		s.open()
	case s.style == "copy" && s.copied == "":
		if s.isSeen = s.rnd.IntN(2) == 0; s.isSeen {
			s.write()
			s.finish()
			s.seen()
		}
		s.shift()
		s.copied = s.path + ".1"
		text, err := os.ReadFile(s.path)
		s.check(err)
		if s.atCopy = len(text); s.rest != "" {
			s.lost[s.lines[len(s.lines)-1]] = s.isSeen
		}
		s.check(os.WriteFile(s.copied, text[:s.rnd.IntN(len(text)+1)], 0o600))
	case s.style == "copy":
		text, err := os.ReadFile(s.path)
		s.check(err)
		if s.rnd.IntN(3) > 0 { // what was written meanwhile is not in it
			text = text[:s.atCopy]
		}
		for line := range strings.Lines(string(text)) {
			if whole, ok := strings.CutSuffix(line, "\n"); ok {
				delete(s.lost, whole)
			}
		}
		s.check(os.WriteFile(s.copied, text, 0o600))
		s.finish()
		s.check(s.out.Truncate(0))
		s.copied = ""
	case s.rnd.IntN(2) == 0:
		s.compress()
	default:
		s.shift()
		s.check(os.Rename(s.path, s.path+".1"))
		for s.rnd.IntN(2) == 0 { // it goes on until it opens the new one
			s.write()
		}
		s.finish()
		s.check(s.out.Close())
		s.open()
	}
}

func (s *server) compress() {
	s.plain = fmt.Sprintf("%s.%d", s.path, 1+s.rnd.IntN(4))
	text, err := os.ReadFile(s.plain)
	if err != nil {
		return
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(text)
	s.check(errors.Join(err, w.Close()))
	s.archive, s.packed = s.plain+".gz", b.Bytes()
	s.check(os.WriteFile(s.archive, s.packed[:s.rnd.IntN(len(s.packed))], 0o600))
}

// reader follows the log, and keeps lines and positions together, as a store does.
type reader struct {
	*server
	sources   []Source
	follower  *Follower
	pending   []Chunk
	positions map[string][]byte
	got       map[string]int
	said      int // how often lines were possibly lost
}

func (r *reader) start() {
	var err error
	r.follower, err = New(r.sources, r.positions, Options{Now: func() time.Time { return r.now }})
	r.check(err)
}

// keep keeps the first n chunks that were given.
func (r *reader) keep(n int) {
	for _, c := range r.pending[:n] {
		for line := range strings.Lines(string(c.Text)) {
			if line[0] != '#' {
				r.got[strings.TrimSuffix(line, "\n")]++
			}
		}
		if c.PossiblyLost {
			r.said++
		}
		if r.positions[c.Key] = c.Position; c.Position == nil {
			delete(r.positions, c.Key)
		}
	}
	r.pending = r.pending[n:]
}

// die forgets what was not kept.
func (r *reader) die() {
	r.keep(r.rnd.IntN(len(r.pending) + 1))
	r.pending = nil
	r.check(r.follower.Close())
	r.start()
}

var errKilled = errors.New("killed")

func (r *reader) poll(mayDie bool) {
	left := -1
	if mayDie && r.rnd.IntN(4) == 0 {
		left = r.rnd.IntN(3)
	}
	err := r.follower.Poll(r.t.Context(), func(c Chunk) error {
		if left == 0 {
			return errKilled
		}
		left--
		c.Text = bytes.Clone(c.Text)
		r.pending = append(r.pending, c)
		return nil
	})
	if errors.Is(err, errKilled) {
		r.die()
		return
	}
	r.check(err)
}

func simulate(t *testing.T, seed uint64, style string) {
	s := &server{t: t, rnd: rand.New(rand.NewPCG(seed, 30)), style: style, path: filepath.Join(t.TempDir(), "access.log"),
		lost: map[string]bool{}, now: time.Unix(1_800_000_000, 0)}
	r := &reader{server: s, positions: map[string][]byte{}, got: map[string]int{}, sources: []Source{{Where: s.path}}}
	if seed%3 == 0 {
		r.sources[0].Where = filepath.Join(filepath.Dir(s.path), "*.log")
	}
	s.seen = func() {
		r.poll(false)
		r.keep(len(r.pending))
	}
	s.open()
	r.start()
	for range 10 + s.rnd.IntN(50) {
		switch n := s.rnd.IntN(20); {
		case n < 8:
			s.write()
		case n < 12:
			s.rotate()
		case n < 16:
			r.poll(true)
		case n == 16:
			r.keep(s.rnd.IntN(len(r.pending) + 1))
		case n == 17:
			r.die()
		case n == 18:
			s.now = s.now.Add(time.Duration(s.rnd.Int64N(int64(100 * time.Second))))
		case style == "rename" || style == "headers": // deleted while the server writes to it
			r.poll(false)
			s.check(os.Remove(s.path))
			s.write()
			s.finish()
			s.check(s.out.Close())
			s.open()
			if s.rnd.IntN(2) == 0 {
				s.write()
			}
			s.seen()
		}
	}
	s.finish()
	for s.archive != "" || s.copied != "" {
		s.rotate()
	}
	for range 4 {
		r.poll(false)
		s.now = s.now.Add(13 * time.Hour)
	}
	r.keep(len(r.pending))
	missing := 0
	for _, line := range s.lines {
		n := r.got[line]
		toSay, isLost := s.lost[line]
		delete(r.got, line)
		switch {
		case n == 1:
		case n == 0 && isLost:
			if toSay {
				missing++
			}
		default:
			t.Errorf("seed %d, %s: line %.10q came %d times", seed, style, line, n)
		}
	}
	for line := range maps.Keys(r.got) {
		t.Errorf("seed %d, %s: line %.20q was never written", seed, style, line)
	}
	if missing > 0 && r.said == 0 {
		t.Errorf("seed %d: %d lines are lost, and it was not said", seed, missing)
	}
	if style != "copy" && r.said > 0 {
		t.Errorf("seed %d, %s: possibly lost %d times, although nothing was emptied", seed, style, r.said)
	}
	r.check(r.follower.Close())
}

// TestEachLineOnce: whatever a server does to its logs, and wherever the follower is killed.
func TestEachLineOnce(t *testing.T) {
	for _, style := range []string{"rename", "headers", "link", "copy"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(100) {
				simulate(t, seed, style)
			}
		})
	}
}
