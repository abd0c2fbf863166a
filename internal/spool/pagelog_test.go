package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

func TestPageLogIsContinued(t *testing.T) {
	dir := t.TempDir()
	pages := []analytics.Page{page(0, 3), page(2, 0), page(1, 250)}
	want := map[int]PageInfo{}
	for i, p := range pages {
		f := begin(t, openSpool(t, dir))
		check(t, f.Append(p))
		want[p.Offset] = InfoOf(f.shape, p)
		if d := cmp.Diff(want, f.Pages); d != "" {
			t.Errorf("pages (-want +got):\n%s", d)
		}
		if f.Reading() != 1 || f.Requests() != i+1 || !f.Started().Equal(now) {
			t.Errorf("attempt %d, requests %d, started %v", f.Reading(), f.Requests(), f.Started())
		}
		check(t, f.Close())
	}
	rows, duplicates := collect(t, begin(t, openSpool(t, dir)))
	if d := cmp.Diff(sortedPages(pages...), rows); d != "" || duplicates != 0 {
		t.Errorf("%d duplicates; rows (-want +got):\n%s", duplicates, d)
	}
}

// TestHeaderRules: which log is continued.
func TestHeaderRules(t *testing.T) {
	for name, tc := range map[string]struct {
		number    int32
		notBefore time.Time
		on        bool
	}{
		"the same":               {1, time.Time{}, true},
		"begun at notBefore":     {1, now, true},
		"begun before notBefore": {1, now.Add(time.Microsecond), false},
		"another revision":       {2, time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSpool(t, t.TempDir())
			f := begin(t, s)
			check(t, f.Append(page(0, 2)))
			check(t, f.Close())
			later := now.Add(time.Hour)
			for range 2 { // what began anew is gone on with as such
				g, err := s.Begin(key, tc.number, later, tc.notBefore)
				check(t, err)
				want, started := 0, later
				if tc.on {
					want, started = 1, now
				}
				rows, _ := collect(t, g)
				if g.Requests() != want || len(rows) != 2*want || !g.Started().Equal(started) || g.Reading() != 1 {
					t.Errorf("requests %d, rows %d, started %v", g.Requests(), len(rows), g.Started())
				}
				check(t, g.Close())
			}
		})
	}
}

func TestLogOfAnotherKeyIsNotContinued(t *testing.T) {
	s := openSpool(t, t.TempDir())
	f := begin(t, s)
	check(t, f.Append(page(0, 2)))
	check(t, f.Close())
	other := key
	other.Project = "prj_b"
	check(t, os.Rename(f.path, filepath.Join(s.fetching, name(other)+suffix)))
	g, err := s.Begin(other, 1, now, time.Time{})
	check(t, err)
	defer g.Close()
	if g.Requests() != 0 {
		t.Errorf("%d pages of another window", g.Requests())
	}
}

func TestRestart(t *testing.T) {
	s := openSpool(t, t.TempDir())
	f := begin(t, s)
	check(t, f.Append(page(0, 5)))
	check(t, f.Append(page(1, 5)))
	later := now.Add(time.Minute)
	check(t, f.Restart(later))
	check(t, f.Append(page(0, 4)))
	for range 2 {
		if f.Reading() != 2 || f.Requests() != 3 || !f.Started().Equal(later) {
			t.Errorf("attempt %d, requests %d, started %v", f.Reading(), f.Requests(), f.Started())
		}
		rows, _ := collect(t, f)
		if d := cmp.Diff(sortedPages(page(0, 4)), rows); d != "" {
			t.Errorf("rows (-want +got):\n%s", d)
		}
		check(t, f.Close())
		f = begin(t, s)
	}
}

func TestAppendTwiceCountsOnce(t *testing.T) {
	dir := t.TempDir()
	f := begin(t, openSpool(t, dir))
	check(t, f.Append(page(0, 3)))
	before, err := os.Stat(f.path)
	check(t, err)
	second := page(0, 2)
	check(t, f.Append(second))
	if after, err := os.Stat(f.path); err != nil || after.Size() != before.Size() {
		t.Errorf("the log grew from %d to %d bytes, %v", before.Size(), after.Size(), err)
	}
	if rows, duplicates := collect(t, f); len(rows) != 3 || duplicates != 0 || f.Requests() != 1 {
		t.Errorf("%d rows, %d duplicates, %d requests", len(rows), duplicates, f.Requests())
	}
}

// logOf returns a page log of three pages, and where its records end.
func logOf(t *testing.T, report analytics.Report) (content []byte, ends []int, pages []analytics.Page) {
	t.Helper()
	f := beginOf(t, openSpool(t, t.TempDir()), report)
	note := func() {
		stat, err := f.file.Stat()
		check(t, err)
		ends = append(ends, int(stat.Size()))
	}
	note()
	for i := range 3 {
		pages = append(pages, page(i, 2-i))
		check(t, appendTo(f, pages[i]))
		note()
	}
	content, err := os.ReadFile(f.path)
	check(t, err)
	return content, ends, pages
}

// resume puts a log in place, opens it, and checks that its pages are the first of those
// that were written; it returns how many.
func resume(t *testing.T, s *Spool, report analytics.Report, content []byte, pages []analytics.Page) int {
	t.Helper()
	k := keyOf(report)
	check(t, os.WriteFile(filepath.Join(s.fetching, name(k)+suffix), content, 0o600))
	f, err := s.Begin(k, 1, now, time.Time{})
	check(t, err)
	defer f.Close()
	n := f.Requests()
	want := map[int]PageInfo{}
	for _, p := range pages[:n] {
		want[p.Offset] = infoOf(report, p)
	}
	if d := cmp.Diff(want, f.Pages); d != "" {
		t.Fatalf("pages (-want +got):\n%s", d)
	}
	if rows, want := rowsAndWant(t, f, pages[:n]...); !cmp.Equal(rows, want) {
		t.Fatalf("rows are wrong: %v", rows)
	}
	// Missing pages can be appended, and are there the next time.
	for _, p := range pages[n:] {
		check(t, appendTo(f, p))
	}
	g, err := s.Begin(k, 1, now, time.Time{})
	check(t, err)
	defer g.Close()
	if rows, want := rowsAndWant(t, g, pages...); g.Requests() != len(pages) || !cmp.Equal(rows, want) {
		t.Fatalf("after appending: %d pages, rows %v", g.Requests(), rows)
	}
	return n
}

func TestTornAtEveryByte(t *testing.T) {
	eachReport(t, func(t *testing.T, report analytics.Report) {
		content, ends, pages := logOf(t, report)
		s := openSpool(t, t.TempDir())
		for cut := range len(content) + 1 {
			want := 0
			for _, end := range ends[1:] {
				if cut >= end {
					want++
				}
			}
			if got := resume(t, s, report, content[:cut], pages); got != want {
				t.Errorf("cut at %d of %d: %d pages, want %d", cut, len(content), got, want)
			}
		}
	})
}

func eachReport(t *testing.T, test func(*testing.T, analytics.Report)) {
	for _, report := range []analytics.Report{analytics.VisitorsReport, analytics.AgentsReport} {
		t.Run(report.String(), func(t *testing.T) { test(t, report) })
	}
}

func TestBitFlipsAreFound(t *testing.T) {
	eachReport(t, func(t *testing.T, report analytics.Report) {
		content, ends, pages := logOf(t, report)
		s := openSpool(t, t.TempDir())
		for at := range content {
			flipped := append([]byte{}, content...)
			flipped[at] ^= 1 << (at % 8)
			want := 0
			for _, end := range ends[1:] {
				if at >= end {
					want++
				}
			}
			if got := resume(t, s, report, flipped, pages); got != want {
				t.Errorf("flip at %d: %d pages, want %d", at, got, want)
			}
		}
		// A hole, which a machine's crash can leave.
		if got := resume(t, s, report, append(content[:ends[1]:ends[1]], make([]byte, 5000)...), pages); got != 1 {
			t.Errorf("zeros after one page: %d pages", got)
		}
	})
}

// TestNothingComesBack: the records after damage are gone for good, even when another page of
// the same length replaces the damaged one.
func TestNothingComesBack(t *testing.T) {
	content, ends, _ := logOf(t, analytics.VisitorsReport)
	content[ends[0]+recordHead] ^= 1 // the first page
	s := openSpool(t, t.TempDir())
	check(t, os.WriteFile(filepath.Join(s.fetching, name(key)+suffix), content, 0o600))
	f := begin(t, s)
	check(t, f.Append(page(0, 2)))
	check(t, f.Close())
	if g := begin(t, s); g.Requests() != 1 {
		t.Errorf("%d pages, one was appended", g.Requests())
	}
}

// mount mounts a tmpfs at a new directory, or skips the test.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("NOT TESTED: mounting a small file system: %v (needs root)", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func TestDiskFull(t *testing.T) {
	dir := mount(t, "size=256k")
	f := begin(t, openSpool(t, dir))
	var pages []analytics.Page
	var err error
	for i := 0; err == nil; i++ {
		pages = append(pages, page(i, 100))
		err = f.Append(pages[i])
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "spool:") {
		t.Errorf("got %v", err)
	}
	if again := f.Append(page(99, 1)); again == nil {
		t.Error("a page is appended after one in part")
	}
	check(t, f.Close())
	// Sorting needs as much again, and leaves nothing behind.
	f = begin(t, openSmall(t, dir, 50_000))
	if _, err := f.Seal(t.Context(), revisionOf(key, 1)); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrDamaged) {
		t.Errorf("sealed: %v", err)
	} else if !strings.Contains(err.Error(), "bytes of rows on disk") || len(files(t, dir)) != 1 {
		t.Errorf("%v; files: %v", err, files(t, dir))
	}
	check(t, f.Close())
	// The next run finds room on the disk again.
	check(t, syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m"))
	g := begin(t, openSmall(t, dir, 50_000))
	n := g.Requests()
	if n < len(pages)-1 || n == 0 {
		t.Errorf("%d pages are left of %d", n, len(pages))
	}
	for _, p := range pages[n:] {
		check(t, g.Append(p))
	}
	w, err := g.Seal(t.Context(), revisionOf(key, 1))
	check(t, err)
	if !cmp.Equal(all(t, w.Rows()), sortedPages(pages...)) {
		t.Error("rows are wrong")
	}
}

// TestBroken: a log that was written in part is neither continued nor sealed, until a new
// reading begins.
func TestBroken(t *testing.T) {
	s := openSpool(t, t.TempDir())
	f := begin(t, s)
	check(t, f.Append(page(0, 2)))
	f.broken = errors.New("broken")
	if err := f.Append(page(1, 2)); !errors.Is(err, f.broken) {
		t.Errorf("append: %v", err)
	}
	if _, err := f.Seal(t.Context(), revisionOf(key, 1)); !errors.Is(err, f.broken) {
		t.Errorf("seal: %v", err)
	}
	check(t, f.Restart(now))
	check(t, f.Append(page(1, 2)))
}
