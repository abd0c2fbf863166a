package spool

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

func revisionOf(k analytics.Key, number int32) analytics.Revision {
	return analytics.Revision{
		Key: k, Number: number, Verified: true, ExportedAt: now,
		Totals: analytics.Totals{Human: 7, AI: 5, Total: 11},
	}
}

// seal seals a window of 10 rows.
func seal(t *testing.T, s *Spool, k analytics.Key, number int32) *Sealed {
	t.Helper()
	f, err := s.Begin(k, number, now, time.Time{})
	check(t, err)
	check(t, f.Append(page(0, 10)))
	w, err := s.Seal(context.Background(), f, revisionOf(k, number))
	check(t, err)
	check(t, f.Discard())
	return w
}

func TestSeal(t *testing.T) {
	dir := t.TempDir()
	s := openSmall(t, dir, 7)
	f := begin(t, s)
	pages := []analytics.Page{page(0, 20), page(2, 5), page(1, 20)}
	for _, p := range pages {
		check(t, f.Append(p))
	}
	rev := revisionOf(key, 1)
	for range 2 { // once more after a crash before the ledger knew
		w, err := s.Seal(context.Background(), f, rev)
		check(t, err)
		want := rev
		want.Rows = 45
		if d := cmp.Diff(want, w.Revision()); d != "" {
			t.Errorf("revision (-want +got):\n%s", d)
		}
		if d := cmp.Diff(sortedRows(pages...), all(t, w.Rows())); d != "" {
			t.Errorf("rows (-want +got):\n%s", d)
		}
	}
	sealed, log := "sealed/prj_a.day.2026-10-01_2026-10-02.r1.parquet", "fetching/prj_a.day.2026-10-01_2026-10-02.pages"
	check(t, f.Close())
	if d := cmp.Diff([]string{log, sealed}, files(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	f = begin(t, s)
	check(t, f.Discard())
	if d := cmp.Diff([]string{sealed, "tmp/idle-1"}, files(t, dir)); d != "" {
		t.Errorf("files after Discard (-want +got):\n%s", d)
	}
	check(t, s.RemoveIdle())
	if d := cmp.Diff([]string{sealed}, files(t, dir)); d != "" {
		t.Errorf("files after RemoveIdle (-want +got):\n%s", d)
	}
}

// TestFilesOfLogsAreUsedAgain: a log begins empty in the file of one that was discarded, and
// a window that was discarded can begin again while others have its file.
func TestFilesOfLogsAreUsedAgain(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	other := key
	other.Project = "prj_b"
	open := func(k analytics.Key) *PageLog {
		f, err := s.Begin(k, 1, time.Unix(0, 0), time.Time{})
		check(t, err)
		if n := len(f.Pages()); n > 0 {
			t.Errorf("%s begins with %d pages", k, n)
		}
		return f
	}
	for range 3 {
		first := open(key)
		check(t, first.Append(page(0, 5)))
		check(t, first.Discard())
		second := open(other)
		check(t, second.Append(page(0, 7)))
		again := open(key)
		check(t, again.Append(page(0, 9)))
		check(t, second.Close())
		second, err := s.Begin(other, 1, time.Unix(0, 0), time.Time{})
		check(t, err)
		if p, ok := second.Page(0); !ok || p.Rows != 7 {
			t.Errorf("the log that was closed has %+v", second.Pages())
		}
		check(t, second.Discard())
		check(t, again.Discard())
	}
	if got := files(t, dir); len(got) != 2 || !strings.HasPrefix(got[0], "tmp/") {
		t.Errorf("files after all: %v", got)
	}
}

// TestHold: a window of one page is sealed in memory, and can be sealed into a file later.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	f := begin(t, s)
	rev := revisionOf(key, 1)
	pages := page(0, 20)
	check(t, f.Append(pages))
	if !f.IsOnePage() {
		t.Fatal("a log of one page is not one")
	}
	w, err := s.Hold(context.Background(), f, rev)
	check(t, err)
	before := files(t, dir)
	if len(before) != 1 || !strings.HasPrefix(before[0], "fetching/") || !w.IsHeld() {
		t.Errorf("held: %v, files: %v", w.IsHeld(), before)
	}
	sealed, err := s.Seal(context.Background(), f, rev)
	check(t, err)
	if d := cmp.Diff(content(t, sealed), content(t, w)); d != "" {
		t.Errorf("the held file is not the sealed one (-want +got):\n%s", d)
	}
	if sealed.IsHeld() || w.Revision() != sealed.Revision() || w.Checksum() != sealed.Checksum() {
		t.Errorf("sealed as %+v", sealed.Revision())
	}
	if d := cmp.Diff(sortedRows(pages), all(t, sealed.Rows())); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	check(t, f.Append(page(1, 1)))
	if f.IsOnePage() {
		t.Error("a log of two pages is one of one")
	}
}

func content(t *testing.T, w *Sealed) string {
	t.Helper()
	in, err := w.Open()
	check(t, err)
	defer in.Close()
	data, err := io.ReadAll(in)
	check(t, err)
	return string(data)
}

// TestSealEndsWithContext: sealing a large window does not delay the stop of a process.
func TestSealEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	s := openSmall(t, dir, 4)
	f := begin(t, s)
	check(t, f.Append(page(0, 20)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Seal(ctx, f, revisionOf(key, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if got := files(t, dir); slices.ContainsFunc(got, func(name string) bool { return strings.HasPrefix(name, "sealed/") }) {
		t.Errorf("files after a cancelled seal: %v", got)
	}
	w, err := s.Seal(context.Background(), f, revisionOf(key, 1))
	check(t, err)
	if w.Revision().Rows != 20 {
		t.Errorf("%d rows, want 20", w.Revision().Rows)
	}
}

func TestSealTotalsOnly(t *testing.T) {
	s := openSpool(t, t.TempDir())
	f := begin(t, s)
	check(t, f.Append(page(0, 0)))
	rev := revisionOf(key, 1)
	rev.Rows = analytics.TotalsOnlyRows
	w, err := s.Seal(context.Background(), f, rev)
	check(t, err)
	if d := cmp.Diff(rev, w.Revision()); d != "" {
		t.Errorf("revision (-want +got):\n%s", d)
	}
}

func TestSealDuplicates(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	f := begin(t, s)
	second := page(1, 3)
	second.Rows[1] = page(0, 3).Rows[2]
	second.Rows[1].Human = 4711
	check(t, f.Append(page(0, 3)))
	check(t, f.Append(second))
	rev := revisionOf(key, 1)
	_, err := s.Seal(context.Background(), f, rev)
	if !errors.Is(err, ErrDuplicate) || !strings.Contains(err.Error(), key.String()) {
		t.Errorf("got %v, want ErrDuplicate", err)
	}
	if got := files(t, dir); len(got) != 1 || !strings.HasPrefix(got[0], "fetching/") {
		t.Errorf("files after ErrDuplicate: %v", got)
	}
	rev.Verified = false
	w, err := s.Seal(context.Background(), f, rev)
	check(t, err)
	found := 0
	for _, row := range all(t, w.Rows()) {
		if row.Path == second.Rows[1].Path && row.Human == 4711 {
			found++
		}
	}
	if w.Revision().Rows != 5 || found != 1 {
		t.Errorf("%d rows, the last added comes %d times", w.Revision().Rows, found)
	}
}

func TestListWithADamagedFile(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	other := key
	other.Project = "prj_b"
	whole, damaged := seal(t, s, key, 2), seal(t, s, other, 1)
	size, err := os.Stat(whole.Path())
	check(t, err)
	check(t, os.Truncate(damaged.Path(), 100))
	for round := range 2 {
		got, bad, err := s.List(t.Context())
		check(t, err)
		if len(got) != 1 || got[0].Path() != whole.Path() || got[0].Revision() != whole.Revision() {
			t.Errorf("round %d: whole %v", round, got)
		}
		if len(bad) != 1-round { // it is met only once
			t.Errorf("round %d: damaged %v", round, bad)
		}
	}
	if _, err := os.Stat(damaged.Path() + ".damaged"); err != nil {
		t.Error(err)
	}
	if got, err := s.Size(); err != nil || got != size.Size() {
		t.Errorf("size %d, %v; want %d", got, err, size.Size())
	}
	for range 2 { // again is harmless
		check(t, s.Remove(whole))
	}
	if got, err := s.Size(); err != nil || got != 0 {
		t.Errorf("size %d after Remove, %v", got, err)
	}
}

// TestListUnreadable: a file that cannot be read now may be whole.
func TestListUnreadable(t *testing.T) {
	s := openSpool(t, t.TempDir())
	w := seal(t, s, key, 1)
	check(t, os.Remove(w.Path()))
	check(t, os.Mkdir(w.Path(), 0o700)) // reading it is an I/O error
	_, damaged, err := s.List(t.Context())
	if err == nil || len(damaged) != 0 {
		t.Errorf("damaged %v, %v", damaged, err)
	}
	if _, err := os.Stat(w.Path()); err != nil {
		t.Error(err)
	}
}

func TestListIsCancelled(t *testing.T) {
	s := openSpool(t, t.TempDir())
	seal(t, s, key, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestOpenClearsAway: Open removes what a killed process left, and nothing else.
func TestOpenClearsAway(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	seal(t, s, key, 1)
	for i, age := range []time.Duration{staleAfter, staleAfter - time.Second, -time.Hour} {
		k := key
		k.Project = string(rune('a' + i))
		f, err := s.Begin(k, 1, now, time.Time{})
		check(t, err)
		check(t, f.Close())
		check(t, os.Chtimes(f.path, now, now.Add(-age)))
	}
	check(t, os.WriteFile(filepath.Join(s.tmp, "run-1.tmp"), []byte("x"), 0o600))
	openSpool(t, dir)
	want := []string{
		"fetching/b.day.2026-10-01_2026-10-02.pages", "fetching/c.day.2026-10-01_2026-10-02.pages",
		"sealed/prj_a.day.2026-10-01_2026-10-02.r1.parquet",
	}
	if d := cmp.Diff(want, files(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

func TestOpenWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file, now); err == nil || !strings.Contains(err.Error(), "spool: ") || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

// flip changes one bit in the middle of a file.
func flip(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	data[len(data)/2] ^= 4
	check(t, os.WriteFile(path, data, 0o600))
}

// TestFlippedBit: after a bit has flipped nobody gets the file.
func TestFlippedBit(t *testing.T) {
	s := openSpool(t, t.TempDir())
	w := seal(t, s, key, 900)
	flip(t, w.Path())
	if in, err := w.Open(); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open = %v, %v", in, err)
	}
	for row, err := range w.Rows() {
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("Rows yields %+v, %v", row, err)
		}
	}
	whole, damaged, err := s.List(t.Context())
	if len(whole) != 0 || len(damaged) != 1 || err != nil {
		t.Errorf("List = %v, %v, %v", whole, damaged, err)
	}
	if _, err := w.Open(); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("Open of a file that is gone = %v", err)
	}
}

func TestPutAside(t *testing.T) {
	s := openSpool(t, t.TempDir())
	w := seal(t, s, key, 3)
	check(t, s.PutAside(w))
	if whole, damaged, err := s.List(t.Context()); len(whole)+len(damaged) != 0 || err != nil {
		t.Errorf("List = %v, %v, %v", whole, damaged, err)
	}
}

// TestFormerVersion: a file sealed by the version that wrote no CRC is delivered.
func TestFormerVersion(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	data, err := os.ReadFile("../archive/testdata/former.parquet")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(s.sealed, "prj_a.day.2026-10-01_2026-10-02.r3.parquet"), data, 0o600))
	whole, damaged, err := s.List(t.Context())
	check(t, err)
	if len(whole) != 1 || len(damaged) != 0 || len(all(t, whole[0].Rows())) != 2 || whole[0].Checksum() != "" {
		t.Fatalf("List = %v, %v", whole, damaged)
	}
}

// BenchmarkOpen measures the check of a file of 25,000 rows.
func BenchmarkOpen(b *testing.B) {
	s := openSpool(b, b.TempDir())
	f := begin(b, s)
	for i := range 100 {
		check(b, f.Append(page(i, 250)))
	}
	w, err := s.Seal(b.Context(), f, revisionOf(key, 1))
	check(b, err)
	for b.Loop() {
		check(b, w.test())
	}
}

// TestListUnderWay: it counts the pages that killed processes left undamaged.
func TestListUnderWay(t *testing.T) {
	dir := t.TempDir()
	if found, err := ListUnderWay(dir); err != nil || len(found) != 0 {
		t.Errorf("nothing there: %v, %v", found, err)
	}
	s, err := Open(dir, now)
	check(t, err)
	f, err := s.Begin(key, 3, now, time.Time{})
	check(t, err)
	if found, err := ListUnderWay(dir); err != nil || len(found) != 0 {
		t.Errorf("no page yet: %v, %v", found, err)
	}
	check(t, f.Append(page(0, 250)))
	check(t, f.Restart(now))
	for n := range 3 {
		check(t, f.Append(page(n, 250)))
	}
	check(t, f.Close())
	path := filepath.Join(dir, "spool", "fetching", name(key)+".pages")
	whole, err := os.ReadFile(path)
	check(t, err)
	for _, tc := range []struct{ cut, pages int }{{0, 3}, {1, 2}, {len(whole) / 2, 1}} {
		check(t, os.WriteFile(path, whole[:len(whole)-tc.cut], 0o600))
		found, err := ListUnderWay(dir)
		check(t, err)
		if len(found) != 1 {
			t.Fatalf("%d bytes cut off: %v", tc.cut, found)
		}
		u := found[0]
		if u.Key != key.String() || u.Revision != 3 || u.Reading != 2 || u.Pages != tc.pages || !u.Started.Equal(now.Truncate(time.Microsecond)) {
			t.Errorf("%d bytes cut off: %+v", tc.cut, u)
		}
	}
	for _, damaged := range [][]byte{nil, []byte("x"), append(make([]byte, 8), whole[8:]...)} {
		check(t, os.WriteFile(path, damaged, 0o600))
		if found, err := ListUnderWay(dir); err != nil || len(found) != 0 {
			t.Errorf("damaged: %v, %v", found, err)
		}
	}
}
