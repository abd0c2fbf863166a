package logs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/filestore"
)

func TestMain(m *testing.M) { os.Exit(engines.S3Main(m, false)) }

// server writes a log, and rotates it in one of several ways. Every line is different, but those that begin with #.
type server struct {
	t       *testing.T
	rnd     *rand.Rand
	style   string
	path    string // of the live log
	out     *os.File
	rest    string // of a line that was begun
	count   int
	emptied int // how often
	lines   []string
	lost    map[string]bool // lines that nobody may have kept: true if that was to be said
	now     time.Time

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
		s.emptied++
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
	r.follower, err = NewFollower(r.sources, r.positions, FollowOptions{Now: func() time.Time { return r.now }})
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
			r.poll(false)
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
		if style == "copy" && slices.ContainsFunc(s.lines, func(whole string) bool {
			_, isLost := s.lost[whole]
			return isLost && strings.HasPrefix(whole, line)
		}) {
			continue // a copy ended in it
		}
		t.Errorf("seed %d, %s: line %.20q was never written", seed, style, line)
	}
	if r.said > s.emptied {
		t.Errorf("seed %d: possibly lost %d times, but emptied %d times", seed, r.said, s.emptied)
	}
	if missing > 0 && r.said == 0 {
		t.Errorf("seed %d: %d lines are lost, and it was not said", seed, missing)
	}
	if style != "copy" && r.said > 0 {
		t.Errorf("seed %d, %s: possibly lost %d times, although nothing was emptied", seed, style, r.said)
	}
	r.check(r.follower.Close())
	s.check(errors.Join(s.out.Close(), os.RemoveAll(filepath.Dir(s.path))))
}

// TestEachLineOnce: whatever a server does to its logs, and wherever the follower is killed.
func TestEachLineOnce(t *testing.T) {
	for _, style := range []string{"rename", "headers", "link", "copy"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(80) {
				simulate(t, seed, style)
			}
		})
	}
}

// watch is a follower of some sources in a directory, whose positions are kept after each poll.
type watch struct {
	*testing.T
	dir       string
	sources   []Source
	positions map[string][]byte
	now       time.Time
	stdin     io.Reader
	*Follower
	chunks []Chunk // of the last poll
}

// newWatch follows sources, which begin with the directory if they have no scheme.
func newWatch(t *testing.T, where ...string) *watch {
	w := &watch{T: t, dir: t.TempDir(), positions: map[string][]byte{}, now: time.Unix(1_800_000_000, 0)}
	for _, s := range where {
		if s != "-" && !strings.Contains(s, "://") {
			s = filepath.Join(w.dir, s)
		}
		w.sources = append(w.sources, Source{Where: s})
	}
	return w
}

func (w *watch) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watch) write(name, text string) {
	w.Helper()
	w.check(os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *watch) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// restart makes another follower.
func (w *watch) restart() {
	w.Helper()
	if w.Follower != nil {
		w.check(w.Close())
	}
	var err error
	now := func() time.Time { return w.now }
	w.Follower, err = NewFollower(w.sources, w.positions, FollowOptions{Stdin: w.stdin, Now: now})
	w.check(err)
}

// poll returns the lines of a poll, a minute after the last one, and its error.
func (w *watch) poll() (lines string, err error) {
	if w.Follower == nil {
		w.restart()
	}
	w.now, w.chunks = w.now.Add(time.Minute), nil
	err = w.Poll(w.Context(), func(c Chunk) error {
		lines += strings.ReplaceAll(string(c.Text), "\n", " ")
		w.chunks = append(w.chunks, c)
		if w.positions[c.Key] = c.Position; c.Position == nil {
			delete(w.positions, c.Key)
		}
		return nil
	})
	return strings.TrimSuffix(lines, " "), err
}

// want polls, and compares lines and error, of which fault is a part; empty: none.
func (w *watch) want(lines, fault string) {
	w.Helper()
	got, err := w.poll()
	if got != lines || (err == nil) != (fault == "") || !strings.Contains(fmt.Sprint(err), fault) {
		w.Errorf("polled %.200q, %v; want %q, %q", got, err, lines, fault)
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func TestParseSources(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "[]",
		" /a.log , prj_b=/var/*.log,-": "[{ /a.log} {prj_b /var/*.log} { -}]",
		"/a=b.log":                     "[{ /a=b.log}]",
		"p=s3://bkt/logs?region=eu-1":  "[{p s3://bkt/logs?region=eu-1}]",
		"s3://bkt/logs?region=eu-1":    "[{ s3://bkt/logs?region=eu-1}]",
		"/a,/a":                        `"/a": is named twice`,
		"p=/a,q=/b/..//a":              `"/b/..//a": is named twice`,
		"./*.log,*.log":                `"*.log": is named twice`,
		"p=":                           "no source after the =",
		"a b=/x":                       `project "a b"`,
		"/a[.log":                      "every [ needs",
		"https://example.com/a.log":    "want a file, a glob",
		"s3://B/x":                     "bucket",
	} {
		got, err := ParseSources(text)
		if s := fmt.Sprint(got, err); err == nil && fmt.Sprint(got) != want || err != nil && !strings.Contains(s, want) {
			t.Errorf("%q: %s, want %s", text, s, want)
		}
	}
}

// TestRefused: what is no log is an error that names it, others are read, and a log in its place is read later.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(w *watch, path string) error
		lines string
		fault string
	}{
		"nothing": {func(*watch, string) error { return nil }, "", "no such log"},
		"directory": {func(_ *watch, path string) error { return os.Mkdir(path, 0o700) }, "",
			"is a directory: name the logs"},
		"pipe":   {func(_ *watch, path string) error { return syscall.Mkfifo(path, 0o600) }, "", "is a named pipe"},
		"device": {func(_ *watch, path string) error { return os.Symlink("/dev/null", path) }, "", "is a device"},
		"link to a pipe": {func(w *watch, path string) error {
			return errors.Join(syscall.Mkfifo(w.path("pipe"), 0o600), os.Symlink(w.path("pipe"), path))
		}, "", "is a named pipe"},
		"link to nothing": {func(_ *watch, path string) error { return os.Symlink("nothing", path) }, "", "no such log"},
		"link in a ring":  {func(_ *watch, path string) error { return os.Symlink(path, path) }, "", "too many"},
		"link of another user": {func(w *watch, path string) error {
			if os.Getuid() != 0 {
				w.Skip("only root can give a link away")
			}
			w.write("secret", "secret\n")
			return errors.Join(os.Symlink(w.path("secret"), path), os.Lchown(path, 12345, 12345))
		}, "", "a link that another user made"},
		"half an archive": {func(_ *watch, path string) error {
			text := zipped("a\nb\n" + strings.Repeat("c", 500))
			return os.WriteFile(path, []byte(text[:len(text)-9]), 0o600)
		}, "", "ends too early"},
		"half a long archive": {func(_ *watch, path string) error {
			text := zipped("a\nb\n" + strings.Repeat("c", 5000))
			return os.WriteFile(path, []byte(text[:len(text)-9]), 0o600)
		}, "a b", "ends too early"},
		"another archive": {func(_ *watch, path string) error {
			return os.WriteFile(path, []byte("\xfd7zXZ\x00\x00"), 0o600)
		}, "", "is compressed with xz"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(t, "odd.log", "good.log")
			w.write("good.log", "good\n")
			w.check(c.make(w, w.path("odd.log")))
			got, err := w.poll()
			if want := strings.TrimSpace(c.lines + " good"); got != want && got != "good "+c.lines {
				t.Errorf("read %q, want %q", got, want)
			}
			if (err == nil) != (c.fault == "") || err != nil && (!strings.Contains(err.Error(), c.fault) ||
				!strings.Contains(err.Error(), w.path("odd.log"))) {
				t.Errorf("%v, want %q", err, c.fault)
			}
			if failed, ok := errors.AsType[SourceErrors](err); ok && (len(failed) != 1 || failed[0] == nil) {
				t.Errorf("%v, want an error of the first source", failed)
			}
			w.want("", c.fault)
			w.check(os.RemoveAll(w.path("odd.log")))
			w.write("odd.log", "whole\n")
			w.want("whole", "")
		})
	}
}

// TestArchives: an archive is read to its end once, and not at all again.
func TestArchives(t *testing.T) {
	w := newWatch(t, "*.gz")
	text := "a\nb\n" + strings.Repeat("c", 3000) + "\nd"
	whole := zipped(text)
	w.write("x.gz", whole[:len(whole)-8])
	w.want(strings.TrimSuffix(strings.ReplaceAll(text, "\n", " "), " d"), "ends too early")
	w.restart()
	w.want("", "ends too early")
	w.write("x.gz", whole)
	w.want("d", "") // the end is true
	info, err := os.Stat(w.path("x.gz"))
	w.check(err)
	w.write("x.gz", strings.Repeat("?\n", len(whole))[:len(whole)])
	w.check(os.Chtimes(w.path("x.gz"), time.Time{}, info.ModTime()))
	w.want("", "")
	w.restart()
	w.want("", "")

	w.write("bomb.gz", zipped("first\n"+strings.Repeat("0", 3<<20)))
	w.freeText = 2 << 20
	w.want("first", "more than 1000 times its size")
	w.want("", "more than 1000 times its size")
	w.write("long.gz", zipped("another\n"+strings.Repeat("0", 1<<20)+"\nlast\n"))
	w.want("another last", "bomb.gz")
	if n := len(w.chunks); n == 0 || w.chunks[0].TooLong+w.chunks[n-2].TooLong != 1 {
		t.Errorf("the long line was not counted: %+v", w.chunks)
	}
}

// TestKnownFiles: what is not a rotation, in the order of its steps.
func TestKnownFiles(t *testing.T) {
	w := newWatch(t, "a.log", "*.log")
	w.write("a.log", "a1\npart")
	w.write("b.log", "b1\n")
	w.write("a-2026-11-01T10-00-00.000.log.gz", zipped("a0\n"))
	w.check(os.Chtimes(w.path("a-2026-11-01T10-00-00.000.log.gz"), time.Time{}, time.Unix(1, 0)))
	w.check(os.Chtimes(w.path("a.log"), time.Time{}, time.Unix(2, 0)))
	w.want("a0 a1 b1", "") // each once, the oldest first
	for _, c := range w.chunks {
		if want := c.Name == w.path("b.log"); (c.Source == 1) != want {
			t.Errorf("%s is of source %d", c.Name, c.Source)
		}
	}
	w.check(os.Link(w.path("b.log"), w.path("c.log")))
	w.check(os.Symlink("b.log", w.path("d.log")))
	w.want("", "")
	w.write("b.log.bak", "b1\n") // a copy of a short log
	w.want("", "")
	w.write("a.log", "a1\npart\n")
	w.want("part", "")
	w.check(os.Truncate(w.path("a.log"), 3)) // cut, not emptied
	w.want("", "")
	w.restart()
	w.want("", "")

	long := strings.Repeat("0123456789", 200)
	w.write("e.log", long+"\n")
	w.want(long, "")
	w.write("copy.log", long+"\n") // is a log too
	w.want(long, "")
	w.write("copy.log.1", long+"\n") // is a copy
	w.want("", "")
	w.restart()
	w.write("b.log.new", "b1\nb2\n") // begins as another log did
	w.check(os.Rename(w.path("b.log.new"), w.path("b.log")))
	w.want("b1 b2", "")

	begin := `[{"a":"` + strings.Repeat("b", 2000) // no array: a client wrote it
	w.write("f.log", begin+"\n")
	w.want(begin, "")
	w.restart()
	w.write("f.log", begin+"\nf2\n")
	w.want("f2", "")
}

// TestBusyLog: a poll ends, however fast a log grows.
func TestBusyLog(t *testing.T) {
	w := newWatch(t, "a.log")
	w.write("a.log", "line\n")
	w.restart()
	n := 0
	w.check(w.Poll(t.Context(), func(Chunk) error {
		n++
		w.write("a.log", strings.Repeat("line\n", 1+n))
		if n > 5 {
			return errors.New("no end")
		}
		return nil
	}))
}

// TestEmptiedWhileRead: the lines of a log that is copied, emptied and written to between two chunks come once.
func TestEmptiedWhileRead(t *testing.T) {
	w := newWatch(t, "a.log")
	lines := func(from, to int) string {
		var text strings.Builder
		for i := range to - from {
			fmt.Fprintf(&text, "%06d %s\n", from+i, strings.Repeat("x", 9999))
		}
		return text.String()
	}
	old, next := lines(0, 300), lines(300, 900)
	w.write("a.log", old)
	w.restart()
	got, lost := map[string]int{}, 0
	for poll := range 3 {
		w.check(w.Poll(t.Context(), func(c Chunk) error {
			for line := range strings.Lines(string(c.Text)) {
				got[line]++
			}
			if c.PossiblyLost {
				lost++
			}
			if len(got) > 0 && next != "" {
				w.write("a.log.1", old)
				w.write("a.log", next)
				next = ""
			}
			return nil
		}))
		if w.IsBehind(0) != (poll == 0) {
			t.Errorf("poll %d: behind %v", poll, w.IsBehind(0))
		}
	}
	for line := range strings.Lines(lines(0, 900)) {
		if got[line] != 1 {
			t.Errorf("line %.6s came %d times", line, got[line])
		}
		delete(got, line)
	}
	if len(got) != 0 || lost != 1 {
		t.Errorf("%d other lines, possibly lost %d times", len(got), lost)
	}
}

// TestForget: the position of a file that is gone is forgotten after a day, but not with its whole disk.
func TestForget(t *testing.T) {
	w := newWatch(t, "a.log")
	w.write("a.log.1", "old\n")
	w.write("a.log", "new\npart")
	w.want("old new", "")
	w.check(os.Remove(w.path("a.log.1")))
	w.want("", "")
	w.now = w.now.Add(forgetAfter)
	w.want("", "")
	if len(w.chunks) != 1 || w.chunks[0].Position != nil || w.chunks[0].PossiblyLost || len(w.positions) != 1 {
		t.Errorf("%d chunks, %d positions", len(w.chunks), len(w.positions))
	}
	w.write("a.log.1", "short\n")
	w.want("short", "")
	w.check(os.Rename(w.path("a.log.1"), w.path("away")))
	w.want("", "")
	for range 2 { // a day in which it is started again each hour, and the file was there in between
		w.check(os.Rename(w.path("away"), w.path("a.log.1")))
		w.restart()
		w.want("", "")
		w.check(os.Rename(w.path("a.log.1"), w.path("away")))
		for range forgetAfter / time.Hour {
			w.restart()
			w.want("", "")
			w.now = w.now.Add(time.Hour - time.Minute)
		}
		if len(w.positions) != 2 {
			t.Errorf("%d positions: a file that is gone is forgotten before a day is over", len(w.positions))
		}
	}
	w.restart()
	if w.want("", ""); len(w.positions) != 1 {
		t.Errorf("%d positions: a file that is gone is not forgotten after a day", len(w.positions))
	}
	w.check(os.Rename(w.path("a.log"), w.path("away")))
	for _, step := range [][2]string{{"part", ""}, {"", ""}, {"", "no such log"}, {"", "no such log"}} {
		w.want(step[0], step[1])
		w.now = w.now.Add(forgetAfter)
	}
	if len(w.positions) != 1 {
		t.Error("forgot a file of a disk that is away")
	}
	w.check(os.Rename(w.path("away"), w.path("a.log")))
	w.want("", "")
}

// TestPowerCut: a log that lost lines that were read, and then got others, may have lost some of these unread. That is
// said once, and not of a log that only grew.
func TestPowerCut(t *testing.T) {
	w := newWatch(t, "a.log")
	line := func(text string) string { return text + strings.Repeat(".", 200) }
	begin := strings.Repeat(line("begin")+"\n", 10)
	w.write("a.log", begin+line("flushed")+"\n"+line("lost")+"\n")
	w.want(strings.ReplaceAll(begin, "\n", " ")+line("flushed")+" "+line("lost"), "")
	said := func() (n int) {
		w.restart()
		_, err := w.poll()
		w.check(err)
		for _, c := range w.chunks {
			if c.PossiblyLost {
				n++
			}
		}
		return n
	}
	grown := begin + line("flushed") + "\n" + line("other") + "\n" + line("next") + "\n"
	for i, text := range []string{
		begin + line("flushed") + "\n" + line("lost") + "\n" + line("new") + "\n",
		grown, grown, grown + line("after") + "\n",
	} {
		f, err := os.OpenFile(w.path("a.log"), os.O_WRONLY|os.O_TRUNC, 0)
		w.check(err)
		_, err = f.WriteString(text)
		w.check(errors.Join(err, f.Close()))
		if got := said(); (got == 1) != (i == 1) {
			t.Errorf("text %d: possibly lost %d times", i, got)
		}
	}
}

// TestNULs: what a crash leaves in a log, and what a server leaves that writes on where it was after its log was emptied,
// costs no line but the one that it cut.
func TestNULs(t *testing.T) {
	const line = `203.0.113.9 - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "Mozilla/5.0"` + "\n"
	few, many := strings.Repeat("\x00", 700), strings.Repeat("\x00", 2*chunkSize+700)
	for name, c := range map[string]struct {
		texts []string // of the file, one after the other
		want  int      // lines
	}{
		"few":                 {[]string{few + line + line}, 2},
		"many":                {[]string{many + line + line}, 2},
		"in the middle":       {[]string{line + few + line + many + line}, 3},
		"after a cut line":    {[]string{line + line[:30] + few + line + line[:30] + many + line}, 3},
		"before a line grows": {[]string{line + many, line + many + line[:30], line + many + line + line}, 3},
		"made before":         {[]string{strings.Repeat(line, 20) + many, strings.Repeat(line, 21) + many[len(line):]}, 21}, // fallocate
		"compressed":          {[]string{zipped(many + line + few + line)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(t, "a.log")
			lines, lost := 0, 0
			p := (Format{}).Parser()
			for _, text := range c.texts {
				w.write("a.log", text)
				_, err := w.poll()
				w.check(err)
				for _, chunk := range w.chunks {
					if chunk.PossiblyLost {
						lost++
					}
					for one := range bytes.Lines(chunk.Text) {
						if ok, err := p.Parse(bytes.TrimSuffix(one, []byte("\n")), new(Line)); ok && err == nil {
							lines++
						}
					}
				}
				w.restart()
			}
			if lines != c.want || lost > 0 {
				t.Errorf("%d lines, possibly lost %d times, want %d", lines, lost, c.want)
			}
		})
	}
}

func TestStdin(t *testing.T) {
	w := newWatch(t, "-", "a.log")
	in, out := io.Pipe()
	w.stdin = in
	w.write("a.log", "a\n")
	w.want("a", "")
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(out, "b\nc\nd")
		done <- errors.Join(err, out.Close())
	}()
	w.check(<-done)
	got := ""
	for len(got) < 5 { // it comes when it comes
		lines, err := w.poll()
		w.check(err)
		if got += lines; len(w.chunks) > 0 && (w.chunks[0].Key != "" || w.chunks[0].Position != nil) {
			t.Error("standard input has a position")
		}
	}
	if got != "b cd" && got != "b c d" {
		t.Errorf("%q", got)
	}
}

// TestBucket: each version of an object is read once, whenever it comes.
func TestBucket(t *testing.T) {
	proxy := engines.NewS3Proxy(t)
	url := engines.S3URL(t, engines.S3Bucket(t), proxy.URL)
	store, err := filestore.New(url)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := errors.Join(store.Remove(t.Context(), name), store.Create(t.Context(), name, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	w := newWatch(t, url, "a.log")
	w.write("a.log", "a\n")
	put("2026/02.gz", zipped("two\n"))
	put("2026/03", "three\nwithout end")
	w.want("a two three without end", "")
	w.restart()
	w.want("", "")
	put("2026/01.gz", zipped("late\n"))
	half := zipped("half\n" + strings.Repeat("x", 3000))
	put("2026/04.gz", half[:len(half)-8])
	put("2026/05", "five\n")
	w.want("late half five", "after line 1: ends too early")
	w.now = w.now.Add(-time.Minute)
	w.want("", "04.gz") // also before the next listing
	proxy.Set(nil)
	w.want("", "04.gz") // not fetched again
	if requests, _ := proxy.Seen(); len(requests) != 1 {
		t.Errorf("asked for %q, want a listing", requests)
	}
	put("2026/04.gz", half)
	w.want("half "+strings.Repeat("x", 3000), "")
	proxy.Set(engines.S3Says(403, "AccessDenied", "Access Denied"))
	w.write("a.log", "a\nb\n")
	w.want("b", "s3://")
	proxy.Set(nil)
	if err := store.Remove(t.Context(), "2026/02.gz"); err != nil {
		t.Fatal(err)
	}
	kept := len(w.positions)
	w.want("", "")
	w.now = w.now.Add(forgetAfter)
	if w.want("", ""); len(w.positions) != kept-2 { // the former 04.gz also
		t.Errorf("%d positions after the forgetting of two, of %d", len(w.positions), kept)
	}
}

// TestBucketAhead: several objects are fetched at once, and read in the order of their names. The next ones come over the
// same connections.
func TestBucketAhead(t *testing.T) {
	const objects = 3 * aheadObjects
	proxy := engines.NewS3Proxy(t)
	url := engines.S3URL(t, engines.S3Bucket(t), proxy.URL)
	store, err := filestore.New(url)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(t, url)
	for round := range 2 {
		var want []string
		for i := range objects {
			want = append(want, fmt.Sprintf("line%d.%03d", round, i))
			if err := store.Create(t.Context(), fmt.Sprintf("%d/%03d", round, i), []byte(want[i]+"\n")); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var once sync.Once
		inFlight, most, enough := 0, 0, make(chan struct{})
		proxy.Set(func(p *engines.S3Proxy, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
				return false
			}
			mu.Lock()
			inFlight++
			if most = max(most, inFlight); inFlight == aheadObjects {
				once.Do(func() { close(enough) })
			}
			mu.Unlock()
			select { // none is answered before this many have come
			case <-enough:
			case <-r.Context().Done():
			}
			p.Pass(w, r, nil)
			mu.Lock()
			inFlight--
			mu.Unlock()
			return true
		})
		w.want(strings.Join(want, " "), "")
		if most > aheadObjects {
			t.Errorf("%d requests at once", most)
		}
		if _, connections := proxy.Seen(); round > 0 && connections > aheadObjects/2 {
			t.Errorf("%d more connections for the next %d objects", connections, objects)
		}
	}
}

// prober has the lines of a program that asks every host of a server at the same times: more than headSize bytes.
func prober(from, to int) (text string) {
	for i := range to - from {
		text += fmt.Sprintf("10.0.0.9 - - [20/Nov/2026:00:%02d:00 +0000] \"GET / HTTP/1.1\" 200 612 \"-\" \"probe\"\n",
			from+i)
	}
	return text
}

// TestEqualHeads: files with equal beginnings are copies of each other only if the rest is equal too. The lines that
// come show which files were read; polls separate the steps of a case.
func TestEqualHeads(t *testing.T) {
	head := prober(0, 18)
	sorted := func(text string) string { // which of two logs comes first is left open
		return strings.Join(slices.Sorted(strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n")), "\n")
	}
	type step func(w *watch)
	put := func(name, text string) step { return func(w *watch) { w.write(name, text) } }
	move := func(from, to string) step { return func(w *watch) { w.check(os.Rename(w.path(from), w.path(to))) } }
	remove := func(name string) step { return func(w *watch) { w.check(os.Remove(w.path(name))) } }
	restart := func(w *watch) { w.restart() }
	all := func(steps ...step) step {
		return func(w *watch) {
			for _, s := range steps {
				s(w)
			}
		}
	}
	long := prober(20, 50)
	for name, c := range map[string]struct {
		where string // sources
		steps []step
		want  []string // lines after each
		lost  int
	}{
		"two logs": {"a.log,b.log", []step{
			all(put("a.log", head), put("b.log", head)), restart,
			all(put("a.log", head+"a\n"), put("b.log", head+"b\n")), restart,
			all(put("a.log", head+"a\naa\n"), put("b.log", head+"b\nbb\n")),
		}, []string{head + head, "", "a\nb\n", "", "aa\nbb\n"}, 0},
		"two logs at once": {"a.log,b.log", []step{all(put("a.log", head+"a\n"), put("b.log", head+"b\n"))},
			[]string{head + "a\n" + head + "b\n"}, 0},
		"a glob": {"*.log", []step{
			all(put("a.log", head), put("b.log", head)), all(put("a.log", head+"a\n"), put("b.log", head+"b\n")),
		}, []string{head + head, "a\nb\n"}, 0},
		"a new log after a rotated one": {"a.log", []step{
			put("a.log", head+"a\n"), all(move("a.log", "a.log.1"), put("a.log", head)), put("a.log", head+"b\n"),
			restart, put("a.log", head+"b\nc\n"),
		}, []string{head + "a\n", "", head + "b\n", "", "c\n"}, 0},
		"emptied and refilled": {"a.log", []step{
			put("a.log", head+"a\n"+long), put("a.log", head+"b\n"+prober(30, 62)+"b\n"), put("a.log", head+"b\n"+
				prober(30, 62)+"b\nc\n"),
		}, []string{head + "a\n" + long, head + "b\n" + prober(30, 62) + "b\n", "c\n"}, 1},
		"emptied and refilled while docgauge was down": {"a.log", []step{
			put("a.log", head+"a\n"+long), func(w *watch) {
				w.check(w.Close())
				w.Follower = nil
				w.write("a.log", head+"b\n"+prober(30, 60)+"b\n")
			},
		}, []string{head + "a\n" + long, "b\n"}, 1},
		"rotated and compressed": {"a.log", []step{
			put("a.log", head+"a\n"), all(move("a.log", "a.log.1"), put("a.log", "b\n")),
			put("a.log.1.gz", zipped(head+"a\n")), remove("a.log.1"), restart,
		}, []string{head + "a\n", "b\n", "", "", ""}, 0},
		"rotated and compressed while docgauge was down": {"a.log", []step{
			put("a.log", head+"a\n"), all(put("a.log.1.gz", zipped(head+"a\nz\n")), remove("a.log"), put("a.log", "b\n"),
				restart),
		}, []string{head + "a\n", "z\nb\n"}, 0},
		"an archive that begins alike": {"a.log", []step{
			put("a.log", head+"a\n"+long), put("a.log.1.gz", zipped(head+"b\n")),
		}, []string{head + "a\n" + long, head + "b\n"}, 0},
		"an archive that begins alike, of a log that is gone": {"a.log", []step{
			put("a.log", head+"a\n"), all(remove("a.log"), put("a.log", "b\n"), put("a.log.1.gz", zipped(head+"c\nd\n"))),
			restart, func(w *watch) { w.now = w.now.Add(grace) },
		}, []string{head + "a\n", head + "c\nd\nb\n", "", ""}, 0},
		"copied and emptied": {"a.log", []step{
			put("a.log", head+"a\n"), all(put("a.log.1", head+"a\nx\n"), put("a.log", "b\n")),
			all(put("a.log.1.gz", zipped(head+"a\nx\n")), remove("a.log.1")),
		}, []string{head + "a\n", "x\nb\n", ""}, 1},
		"a copy": {"a.log*", []step{
			all(put("a.log", head+"a\n"), put("a.log.bak", head+"a\n")), put("a.log", head+"a\nb\n"), restart,
		}, []string{head + "a\n", "b\n", ""}, 0},
		"compressed in a glob that archives match": {"a.log*", []step{
			put("a.log", "a\n"), all(put("a.log.gz", zipped("a\n")), remove("a.log")), restart,
		}, []string{"a\n", "", ""}, 0},
		"renamed and compressed in such a glob": {"a.log*", []step{
			put("a.log", "a\n"), move("a.log", "a.log.1"),
			all(put("a.log.1.gz", zipped("a\nb\n")), remove("a.log.1"), restart),
		}, []string{"a\n", "", "b\n"}, 0},
		"shifted and compressed in a glob without the log": {"a.log.*", []step{
			put("a.log.1", "a\n"), all(put("a.log.2.gz", zipped("a\n")), remove("a.log.1"), put("a.log.1", "b\n")), restart,
		}, []string{"a\n", "b\n", ""}, 0},
		"a shorter copy in the place of the log": {"a.log", []step{
			put("a.log", head+"a\n"+long), all(put("new", head+long), move("new", "a.log")),
			func(w *watch) { w.now = w.now.Add(grace) },
		}, []string{head + "a\n" + long, "", ""}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(t, strings.Split(c.where, ",")...)
			w.restart()
			lost := 0
			for i, step := range c.steps {
				step(w)
				_, err := w.poll()
				got := ""
				for _, chunk := range w.chunks {
					got += string(chunk.Text)
					if chunk.PossiblyLost {
						lost++
					}
				}
				if got, want := sorted(got), sorted(c.want[i]); got != want || err != nil {
					t.Errorf("step %d: %d bytes … %q, %v; want %d, … %q", i, len(got), got[max(0, len(got)-40):], err,
						len(want), want[max(0, len(want)-40):])
				}
			}
			if lost != c.lost {
				t.Errorf("possibly lost %d times, want %d", lost, c.lost)
			}
		})
	}
}

// TestBorn: a file that is renamed while it is looked at is still known after a restart, although its head is short.
func TestBorn(t *testing.T) {
	w := newWatch(t, "a.log")
	w.write("a.log", "a\n")
	k, c := &known{}, &candidate{path: w.path("a.log")}
	_, err := c.look()
	w.check(err)
	_, err = k.readHead(c)
	w.check(errors.Join(err, os.Rename(w.path("a.log"), w.path("a.log.1"))))
	k.setHead(c.head)
	k.move("a.log", c)
	k.Offset = 1
	again := &candidate{path: w.path("a.log.1")}
	_, err = again.look()
	w.check(err)
	if same, err := k.isAt(again); !same || err != nil {
		t.Errorf("the renamed log is another one: %v", err)
	}
}

// TestInodeOfAnother: the positions of deleted files, whose inode a log has got, change nothing for it: neither the position
// of an archive without a line, nor another when the log was emptied.
func TestInodeOfAnother(t *testing.T) {
	for _, deleted := range []string{"", "deleted\n"} {
		for range 10 { // in which order a follower has the positions is left open
			w := newWatch(t, "*.log", "*.gz")
			w.write("b.gz", zipped(deleted))
			w.want(strings.TrimSpace(deleted), "no such log")
			var key string
			var of, log position
			for k, text := range w.positions {
				key = k
				w.check(json.Unmarshal(text, &of))
			}
			w.write("a.log", "a\n")
			w.check(os.Remove(w.path("b.gz")))
			w.want("a", "no such log")
			for k, text := range w.positions {
				if k != key {
					w.check(json.Unmarshal(text, &log))
				}
			}
			if log.Born == 0 {
				t.Skip("the file system does not say when a file was made")
			}
			of.inode, of.Born = log.inode, of.Born-1 // as if the file had been made before
			text, err := json.Marshal(of)
			w.check(err)
			w.positions[key] = text
			w.restart()
			w.want("", "no such log")
			w.check(w.Close())
			w.Follower = nil
			w.write("a.log", "another\n")
			w.want("another", "no such log")
			if !slices.ContainsFunc(w.chunks, func(c Chunk) bool { return c.PossiblyLost }) {
				t.Error("that the log was emptied is not said")
			}
		}
	}
}

// TestInodeOfEmptyFile: the archive of a log gets the inode of a deleted file that had no line. Its lines were read.
func TestInodeOfEmptyFile(t *testing.T) {
	text := strings.Repeat("line\n", headSize)
	for name, empty := range map[string]string{"a.log.2.gz": zipped(""), "a.log.2": ""} {
		for _, isDated := range []bool{true, false} {
			if name == "a.log.2" && !isDated {
				continue // nothing tells the two from each other
			}
			w := newWatch(t, "a.log")
			w.write(name, empty)
			w.want("", "")
			k := w.known[0]
			w.write("a.log", text)
			w.want(strings.TrimSpace(strings.ReplaceAll(text, "\n", " ")), "")
			w.check(errors.Join(os.Remove(w.path("a.log")), os.Remove(w.path(name))))
			w.write("a.log.1.gz", zipped(text))
			c := &candidate{path: w.path("a.log.1.gz")}
			_, err := c.look()
			w.check(err)
			_, err = (&known{}).readHead(c)
			w.check(err)
			if c.born == 0 && isDated {
				t.Skip("the file system does not say when a file was made")
			}
			if k.inode, k.Born = c.id, c.born; isDated {
				k.Born-- // as if the file had been made before
			}
			w.want("", "")
		}
	}
}

// TestOwnSource: a file belongs to the source that names it, and is a rotation of another log only by a number or date.
func TestOwnSource(t *testing.T) {
	w := newWatch(t, "*.x", "docs.log", "docs-2.log", "docs.log.1", "docs-20261101.log", "y.x", "gone/*")
	names := map[string]int{
		"docs.log": 1, "docs-2.log": 2, "docs.log.1": 3, "docs-20261101.log": 4, "a.x": 0, "a.x.1": 0, "y.x": 5, "y.x.1": 5,
		"docs.log.2.gz": 1, "docs.log-20261101": 1, "docs.log.2026-11-01-12.zst": 1, "docs.log-1793491200": 1,
		"docs-20261102.log": 1, "docs-2026-11-01T10-00-00.000.log.gz": 1, "docs.3.log": 1,
		"docs-2026-11-01T10-00-00.001-size.log": 1, "docs-2026-11-01T10-00-00.002-time.log.gz": 1,
		"docs.log-2026-11-01-10-00-00-time.zst": 1,
		"docs.log.gz":                           1, "docs.log.bak": 1,
		"docs.log.shop": -1, "docs.log-api": -1, "docs-3.log": -1, "docs-api.log": -1, "docs.log.1.shop": -1, "docs.log2": -1,
		"docs-2027-guide.log": -1, "docs.log.old.txt": -1, "docs-2027-guide-size.log": -1,
		"docs-2026-11-01-shop.log": -1, "docs-size.log": -1,
	}
	for name := range names {
		w.write(name, name+"\n")
	}
	_, err := w.poll()
	if failed, _ := errors.AsType[SourceErrors](err); len(failed) != 1 || !errors.Is(failed[6], errMissing) {
		t.Errorf("%v, want that gone/* has no log", err)
	}
	got := map[string]int{}
	for _, c := range w.chunks {
		got[filepath.Base(c.Name)] = c.Source
	}
	for name, want := range names {
		if source, ok := got[name]; ok != (want >= 0) || ok && source != want {
			t.Errorf("%s: read %t, source %d, want %d", name, ok, source, want)
		}
	}
}

// TestSameFile: a file that two sources name, by links, is one log, and of two projects an error.
func TestSameFile(t *testing.T) {
	for name, link := range map[string]func(from, to string) error{"link": os.Symlink, "hard link": os.Link} {
		for _, project := range []string{"prj_a", "prj_b"} {
			t.Run(name+" "+project, func(t *testing.T) {
				w := newWatch(t, "a.log", "links/*.log")
				w.sources[0].Project, w.sources[1].Project = "prj_a", project
				w.write("a.log", "a\n")
				w.check(os.Mkdir(w.path("links"), 0o700))
				w.check(link(w.path("a.log"), w.path("links/b.log")))
				got, err := w.poll()
				all, _ := errors.AsType[SourceErrors](err)
				if refused := all[1] != nil && strings.Contains(all[1].Error(), "the same file"); got != "a" ||
					refused != (project != "prj_a") || all[0] != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
}

// TestErrorsBySource: an error belongs to the source in which it happened, whatever the names are.
func TestErrorsBySource(t *testing.T) {
	w := newWatch(t, "a.log.d/b.log", "a.log", "-", "a-b.log")
	w.stdin = strings.NewReader("")
	w.check(os.MkdirAll(w.path("a.log.d/b.log"), 0o700))
	w.write("a.log", "a\n")
	w.write("a-b.log", "b\n")
	_, err := w.poll()
	all, _ := errors.AsType[SourceErrors](err)
	if len(all) != 1 || !strings.Contains(fmt.Sprint(all[0]), "is a directory") {
		t.Errorf("%v of %v, want one of the first source", all, err)
	}
}

// TestLastLine: a last line without an end is read once, after the log was rotated and is no longer written to.
func TestLastLine(t *testing.T) {
	w := newWatch(t, "a.log")
	w.write("a.log", "a\nlast")
	w.want("a", "")
	w.check(os.Rename(w.path("a.log"), w.path("a.log.1")))
	w.now = w.now.Add(-grace) // the server may still be writing
	w.want("", "")
	w.want("last", "")
	w.want("", "")
	w.restart()
	w.want("", "")
	w.want("", "")
	w.write("a.log.1.gz", zipped("a\nlast"))
	w.check(os.Remove(w.path("a.log.1")))
	w.want("", "")
	w.write("a.log.2", "old\nend") // before the first start
	w.want("old", "")
	w.restart()
	w.want("", "")
	w.want("end", "")
	w.want("", "")
}

// TestManyFiles: of more than fewFiles files a poll looks at those that changed last, and finds the others after a
// pause, whatever becomes of them.
func TestManyFiles(t *testing.T) {
	const many = 40
	w := newWatch(t, "cdn/*/*.log", "late/*.log")
	name := func(i int) string { return fmt.Sprintf("cdn/%d/%02d.log", i%2, i) }
	put := func(name, text string) {
		w.check(os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
		w.write(name, text)
	}
	w.check(os.Mkdir(w.path("late"), 0o700))
	for i := range many {
		put(name(i), fmt.Sprintf("%02d\n", i))
		w.check(os.Chtimes(w.path(name(i)), time.Time{}, time.Unix(int64(i), 0)))
	}
	w.restart()
	w.fewFiles = 6
	const lacks = "no such log"
	if got, err := w.poll(); len(strings.Fields(got)) != many || !errors.Is(err, errMissing) {
		t.Fatal(got, err)
	}
	poll := func(after time.Duration, want string) {
		t.Helper()
		w.now = w.now.Add(after - time.Minute)
		w.want(want, lacks)
	}
	grow := func(i int, text string) {
		t.Helper()
		f, err := os.OpenFile(w.path(name(i)), os.O_APPEND|os.O_WRONLY, 0)
		w.check(err)
		_, err = f.WriteString(text)
		w.check(errors.Join(err, f.Close()))
	}
	pause := 2 * listPause * many
	grow(many-1, "recent\n")
	grow(0, "old\n")
	poll(0, "recent")   // not old
	poll(pause, "")     // no directory has changed
	poll(grace, "old")  // at the latest
	grow(0, "warm\n")   // it changed last
	poll(0, "warm")     //
	grow(1, "beside\n") //
	w.check(os.Chtimes(w.path(name(1)), time.Time{}, time.Now().Add(time.Hour)))
	put("cdn/1/new.log", "new\n")
	poll(0, "")
	poll(pause, "new beside") // the directory has changed
	put("cdn/2/x.log", "first\n")
	poll(pause, "first") // so has the one above
	w.check(os.Rename(w.path("cdn/2/x.log"), w.path("cdn/2/x.log.1")))
	put("cdn/2/x.log", "second\n")
	poll(0, "second") // a log that was looked at has another file
	w.check(os.WriteFile(w.path("cdn/2/x.log.1"), []byte("first\nlast\n"), 0o600))
	poll(0, "last")
	w.write("cdn/2/x.log.2.gz", zipped("first\nlast\n"))
	w.check(os.Remove(w.path("cdn/2/x.log.1")))
	poll(0, "")
	put(name(many-1), "")
	poll(pause, "")
	grow(many-1, "after\n")
	poll(0, "after")
	w.restart()
	w.fewFiles = 6
	poll(0, "")
	put("late/a.log", "came\n")
	w.now = w.now.Add(pause - time.Minute)
	w.want("came", "")

	similar, head := index{}, []byte(strings.Repeat("x", headSize))
	for i := range many { // rotated logs of one base
		similar.add(&known{position: position{Base: "a", HeadSize: headSize, Sum: sum(append(head[1:], byte(i)))}})
	}
	if all := similar.of(&candidate{base: "a", head: append(head[1:], 7)}); len(all) != 1 {
		t.Errorf("a file is compared with %d of %d", len(all), many)
	}
}
