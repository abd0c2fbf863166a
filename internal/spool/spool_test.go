package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

// TestWait: a window that waits for a sink keeps its place while the next revision is read, can
// be resumed, and counts in Size.
func TestWait(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	f := begin(t, s)
	check(t, f.Append(page(0, 10)))
	check(t, f.Wait())
	next, err := s.Begin(key, 2, now, time.Time{})
	check(t, err)
	check(t, next.Append(page(0, 3)))
	check(t, next.Close())
	waiting := "waiting/prj_a.day.2026-10-01_2026-10-02.r1.pages"
	if d := cmp.Diff([]string{"fetching/prj_a.day.2026-10-01_2026-10-02.pages", waiting}, files(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	stat, err := os.Stat(filepath.Join(dir, "spool", waiting))
	check(t, err)
	if got, err := s.Size(); err != nil || got != stat.Size() {
		t.Errorf("size %d, %v; want %d", got, err, stat.Size())
	}
	logs, err := s.Logs()
	check(t, err)
	if len(logs) != 2 || !logs[0].Waiting || logs[0].Revision != 1 || logs[1].Waiting || logs[1].Revision != 2 ||
		logs[1].Key != key {
		t.Fatalf("logs: %+v", logs)
	}
	for range 2 { // after a crash, and when the sink is still down
		f, err := s.Resume(logs[0])
		check(t, err)
		if rows, _ := collect(t, f); len(rows) != 10 {
			t.Errorf("%d rows", len(rows))
		}
		check(t, f.Wait())
	}
	check(t, s.Return(logs[0])) // it takes the place of the other reading
	f = begin(t, s)
	if rows, _ := collect(t, f); len(rows) != 10 {
		t.Errorf("%d rows after Return", len(rows))
	}
	check(t, f.Discard())
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files: %v", got)
	}
}

// TestHolds: the spool has all pages of a revision, being read or waiting, or it does not hold it.
func TestHolds(t *testing.T) {
	dir := t.TempDir()
	rev := revisionOf(key, 1)
	rev.Rows = 10
	holds := func(want bool, change string) {
		t.Helper()
		if got, err := Holds(dir, rev); got != want || err != nil {
			t.Errorf("%s: Holds = %t, %v, want %t", change, got, err, want)
		}
	}
	holds(false, "no spool")
	s := openSpool(t, dir)
	holds(false, "empty")
	f := begin(t, s)
	holds(false, "no page")
	check(t, f.Append(page(0, 7)))
	holds(false, "some of the rows")
	check(t, f.Append(page(1, 3)))
	holds(true, "being read")
	check(t, f.Wait())
	holds(true, "waiting")
	other := rev
	for change, do := range map[string]func(){
		"another number":  func() { rev.Number = 2 },
		"another reading": func() { rev.ExportedAt = now.Add(time.Second) },
	} {
		do()
		holds(false, change)
		rev = other
	}
	path := waitingPath(s.waiting, key, 1)
	flip(t, path)
	holds(false, "damaged")
	check(t, os.Remove(path))
	holds(false, "removed")
	check(t, os.Mkdir(path, 0o700))
	if got, err := Holds(dir, rev); got || err == nil {
		t.Errorf("a log that cannot be read: %t, %v", got, err)
	}
	rev.Number, rev.Rows = 2, analytics.TotalsOnlyRows
	f, err := s.Begin(key, 2, now, time.Time{})
	check(t, err)
	check(t, f.Append(page(0, 1)))
	holds(true, "totals")
	check(t, f.Close())
}

// TestOpenClearsAway: Open removes temporary files, and nothing else. A reading that no run
// continues becomes stale.
func TestOpenClearsAway(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, dir)
	f := begin(t, s)
	check(t, f.Append(page(0, 1)))
	check(t, f.Wait())
	ages := []time.Duration{staleAfter, staleAfter - time.Second, -time.Hour}
	for i, age := range ages {
		k := key
		k.Project = string(rune('a' + i))
		f, err := s.Begin(k, 1, now, time.Time{})
		check(t, err)
		check(t, f.Close())
		check(t, os.Chtimes(f.path, now, now.Add(-age)))
	}
	check(t, os.WriteFile(filepath.Join(s.tmp, "x.parquet"), []byte("x"), 0o600))
	openSpool(t, dir)
	if got := files(t, dir); len(got) != 4 || strings.HasPrefix(strings.Join(got, " "), "tmp") {
		t.Errorf("files: %v", got)
	}
	logs, err := s.Logs()
	check(t, err)
	for i, u := range logs[1:] {
		if u.IsStale(now) != (i == 0) {
			t.Errorf("%s is stale: %t", u.Key, u.IsStale(now))
		}
	}
}

func TestOpenWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), "spool: ") ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

// TestListUnderWay: it counts the pages that killed processes left undamaged.
func TestListUnderWay(t *testing.T) {
	dir := t.TempDir()
	lists := func(n int, change string) []UnderWay {
		t.Helper()
		found, err := ListUnderWay(dir)
		if err != nil || len(found) != n {
			t.Fatalf("%s: %v, %v", change, found, err)
		}
		return found
	}
	lists(0, "no spool")
	f, err := openSpool(t, dir).Begin(key, 3, now, time.Time{})
	check(t, err)
	lists(0, "no page yet")
	check(t, f.Append(page(0, 250)))
	check(t, f.Restart(now))
	for n := range 3 {
		check(t, f.Append(page(n, 250)))
	}
	check(t, f.Close())
	whole, err := os.ReadFile(f.path)
	check(t, err)
	for _, tc := range []struct{ cut, pages int }{{0, 3}, {1, 2}, {len(whole) / 2, 1}} {
		check(t, os.WriteFile(f.path, whole[:len(whole)-tc.cut], 0o600))
		u := lists(1, "cut")[0]
		if u.Key != key || u.Revision != 3 || u.Pages != tc.pages ||
			!u.Started.Equal(now.Truncate(time.Microsecond)) {
			t.Errorf("%d bytes cut off: %+v", tc.cut, u)
		}
	}
	for _, damaged := range [][]byte{nil, []byte("x"), append(make([]byte, 8), whole[8:]...)} {
		check(t, os.WriteFile(f.path, damaged, 0o600))
		lists(0, "damaged")
	}
}

// recordOf returns a record with a correct checksum.
func recordOf(payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

func readerOf(content []byte) *recordReader {
	return newRecordReader(bytes.NewReader(content), int64(len(content)))
}

// TestDamagedLengthCostsLittle: memory is allocated for the bytes in the file, not for the
// length in a record.
func TestDamagedLengthCostsLittle(t *testing.T) {
	content := binary.LittleEndian.AppendUint32(nil, maxRecord)
	content = append(content, make([]byte, 2000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readerOf(content).next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errTorn) {
		t.Errorf("got %v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes were allocated for a file of %d", got, len(content))
	}
}

func TestLongRecord(t *testing.T) {
	payload := bytes.Repeat([]byte("docgauge"), 100_000)
	if got, err := readerOf(recordOf(payload)).next(); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := writeRecord(io.Discard, make([]byte, recordHead+maxRecord+1)); err == nil {
		t.Error("a record is written that cannot be read back")
	}
}

// FuzzRecords reads anything as a log, and anything as the payload of a record:
// it never panics, and a record that can be read can be written and read again.
func FuzzRecords(f *testing.F) {
	whole, _ := encode(analytics.VisitorsReport.Shape(), []byte{kindPage}, page(1, 3))
	f.Add(whole)
	f.Add(recordOf(whole))
	f.Add(append(recordOf(whole), 0, 0, 0, 0))
	f.Add([]byte{kindPage})
	f.Add(append([]byte{kindPage, 0, 0, 0, 0, 0, 200, 1}, bytes.Repeat([]byte{0xff}, 300)...)) // 200 invalid rows
	f.Add([]byte{0xff, 0xff, 0xff, 0x01, 1, 2, 3, 4, 5})
	agentsPayload, _ := encode(analytics.AgentsReport.Shape(), []byte{kindPage}, agentsOf(page(1, 3)))
	f.Add(agentsPayload)
	f.Add(agentsPayload[:len(agentsPayload)-1])
	f.Fuzz(func(t *testing.T, content []byte) {
		r := readerOf(content)
		for rest := content; ; {
			payload, err := r.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, errTorn) {
					t.Fatal(err)
				}
				break
			}
			if !bytes.HasPrefix(rest, recordOf(payload)) {
				t.Fatal("a record was read that is not there")
			}
			rest = rest[recordHead+len(payload):]
		}
		if len(content) == 0 {
			return
		}
		decodesAgain(t, analytics.VisitorsReport.Shape(), content, 4)
		decodesAgain(t, analytics.AgentsReport.Shape(), content, 7)
	})
}

// decodesAgain decodes anything as a page of rows of at least so many bytes; what can be decoded can be encoded
// and decoded again.
func decodesAgain(t *testing.T, of *analytics.Shape, content []byte, least int) {
	read := func(payload []byte) (analytics.Page, error) {
		rows, u := []analytics.Record{}, newUnpacker[[]byte](of)
		var bad error
		p, err := decode(payload, func(path, rest []byte) {
			bad = errors.Join(bad, u.unpack(path, rest))
			rows = append(rows, u.row)
		})
		if p.rows-len(rows) > 1 || err == nil && p.rows != len(rows) {
			t.Fatalf("%d rows of %d", len(rows), p.rows)
		}
		site, siteRows, siteErr := siteOf(of, p.site)
		err = errors.Join(err, bad, siteErr)
		return analytics.Page{Offset: p.offset, HasMore: p.hasMore, Totals: site.Totals,
			Humans: p.humans, Site: siteRows, Rows: rows}, err
	}
	if p, err := read(content); err == nil {
		again, _ := encode(of, []byte{kindPage}, p)
		q, err := read(again)
		if d := cmp.Diff(p, q); d != "" || err != nil {
			t.Fatalf("%v; page of %s (-first +again):\n%s", err, of.Name, d)
		}
	} else if !errors.Is(err, errTorn) || least*(len(p.Rows)-1) > len(content) {
		t.Fatalf("%v, %d rows of %s of %d bytes", err, len(p.Rows), of.Name, len(content))
	}
}
