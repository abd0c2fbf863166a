package spool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

func drawRow(t *rapid.T) analytics.Row {
	return analytics.Row{
		Path:  rapid.StringN(0, 3, 8).Draw(t, "path"),
		Human: rapid.Int64().Draw(t, "human"), AI: rapid.Int64().Draw(t, "ai"), Total: rapid.Int64().Draw(t, "total"),
	}
}

// TestSorterAgainstSlicesSort with runs of a few rows: of several rows with one
// path the last added is left.
func TestSorterAgainstSlicesSort(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		s := &sorter{dir: dir, runRows: rapid.IntRange(1, 40).Draw(rt, "run rows"), runBytes: rapid.IntRange(1, 200).Draw(rt, "run bytes")}
		defer s.reset()
		last := map[string]analytics.Row{}
		added := 0
		for _, rows := range rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawRow), 0, 30), 0, 12).Draw(rt, "pages") {
			if err := s.add(rows); err != nil {
				rt.Fatal(err)
			}
			for _, row := range rows {
				last[row.Path] = row
				added++
			}
		}
		want := []analytics.Row{}
		for _, row := range last {
			want = append(want, row)
		}
		slices.SortFunc(want, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
		for range 2 { // it can be read again
			got, duplicates := collect(t, s)
			if d := cmp.Diff(want, got); d != "" || duplicates != added-len(want) {
				rt.Fatalf("%d duplicates, want %d; rows (-want +got):\n%s", duplicates, added-len(want), d)
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

func TestSorterManyBlocks(t *testing.T) {
	s := &sorter{dir: t.TempDir(), runRows: 3*blockRows + 5, runBytes: 1 << 30}
	defer s.reset()
	var pages []analytics.Page
	for i := range 10 {
		pages = append(pages, page(i, 400))
		check(t, s.add(pages[i].Rows))
	}
	last := map[string]analytics.Row{}
	for _, row := range sortedRows(pages...) {
		last[row.Path] = row
	}
	rows, _ := collect(t, s)
	if len(rows) != len(last) || !slices.IsSortedFunc(rows, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) }) {
		t.Errorf("%d rows, want %d, in order", len(rows), len(last))
	}
	for range s.sorted(new(int)) { // a reader may stop
		break
	}
}

// A merge holds one block of each run: blocks of long paths have few rows.
func TestBlocksAreSmall(t *testing.T) {
	s := &sorter{dir: t.TempDir(), runRows: 1 << 15, runBytes: 4 << 20}
	defer s.reset()
	long := strings.Repeat("x", 30<<10)
	var rows []analytics.Row
	for i := range 200 {
		rows = append(rows, analytics.Row{Path: fmt.Sprintf("/%03d%s", i, long)})
	}
	check(t, s.add(rows))
	if len(s.runs) != 1 {
		t.Fatalf("%d runs", len(s.runs))
	}
	r := bufio.NewReader(io.NewSectionReader(s.file, 0, s.end()))
	for blocks := 0; ; blocks++ {
		payload, err := readRecord(r, nil)
		if errors.Is(err, io.EOF) {
			if blocks != 100 {
				t.Errorf("%d blocks", blocks)
			}
			break
		}
		check(t, err)
		if len(payload) > blockBytes+100 {
			t.Fatalf("a block of %d bytes", len(payload))
		}
	}
	if got, _ := collect(t, s); len(got) != 200 {
		t.Errorf("%d rows", len(got))
	}
}

// TestDamagedRunIsAnError: a spilled run is read back whole or not at all.
func TestDamagedRunIsAnError(t *testing.T) {
	s := &sorter{dir: t.TempDir(), runRows: 10, runBytes: 1 << 30}
	defer s.reset()
	check(t, s.add(page(0, 10).Rows))
	check(t, s.add(page(1, 5).Rows))
	_, err := s.file.WriteAt([]byte{0xff}, 40)
	check(t, err)
	var got error
	for _, err := range s.sorted(new(int)) {
		got = err
	}
	if !errors.Is(got, errTorn) {
		t.Errorf("got %v", got)
	}
}

// recordOf returns a record with a correct checksum.
func recordOf(payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

// TestDamagedLengthCostsLittle: memory is allocated for what the file has, not for what a
// length says.
func TestDamagedLengthCostsLittle(t *testing.T) {
	content := binary.LittleEndian.AppendUint32(nil, maxRecord)
	content = append(content, make([]byte, 2000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readRecord(bufio.NewReader(bytes.NewReader(content)), nil)
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
	got, err := readRecord(bufio.NewReader(bytes.NewReader(recordOf(payload))), make([]byte, 10))
	if err != nil || !bytes.Equal(got, payload) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := writeRecord(io.Discard, make([]byte, recordHead+maxRecord+1)); err == nil {
		t.Error("a record is written that cannot be read back")
	}
}

// FuzzRecords reads anything as a log, and anything as the payload of a record:
// no panic, and what is read can be written and read again.
func FuzzRecords(f *testing.F) {
	whole := appendPage([]byte{kindPage}, page(1, 3))
	f.Add(whole)
	f.Add(recordOf(whole))
	f.Add(append(recordOf(whole), 0, 0, 0, 0))
	f.Add([]byte{kindRows, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{kindPage})
	f.Add(append([]byte{kindPage, 0, 0, 0, 0, 0, 200, 1}, bytes.Repeat([]byte{0xff}, 300)...)) // 200 rows that are none
	f.Add([]byte{0xff, 0xff, 0xff, 0x01, 1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, content []byte) {
		r := bufio.NewReader(bytes.NewReader(content))
		for rest := content; ; {
			payload, err := readRecord(r, nil)
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
		if p, err := decodePage(content); err == nil {
			again, err := decodePage(appendPage([]byte{kindPage}, p))
			if d := cmp.Diff(p, again); d != "" || err != nil {
				t.Fatalf("%v; page (-first +again):\n%s", err, d)
			}
		} else if !errors.Is(err, errTorn) || 4*(len(p.Rows)-1) > len(content) {
			t.Fatalf("%v, %d rows of %d bytes", err, len(p.Rows), len(content))
		}
	})
}
