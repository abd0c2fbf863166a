package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

func sample() analytics.Revision {
	return analytics.Revision{
		Key: analytics.Key{
			Project:     "prj_a",
			Granularity: analytics.Day,
			Window:      analytics.Window{From: analytics.NewDate(2026, 10, 1), To: analytics.NewDate(2026, 10, 2)},
		},
		Number:     3,
		Verified:   true,
		Totals:     analytics.Totals{Human: 100, AI: 30, Total: 120},
		Humans:     analytics.Confirmed,
		ExportedAt: time.Date(2026, 10, 2, 3, 4, 5, 678_901_000, time.UTC),
	}
}

// yields yields rows without an error.
func yields[R any](rows ...R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

var noRows = yields[analytics.Row]()

func check(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// written writes a window file, and returns its name and its bytes.
func written[R analytics.RowType](t testing.TB, rev analytics.Revision, rows iter.Seq2[R, error]) (path string,
	data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "w")
	_, err := Write(path, rev, analytics.Records(rows))
	check(t, err)
	data, err = os.ReadFile(path)
	check(t, err)
	return path, data
}

// writtenTables returns a file of each table by its name, of pages rows of visitors and of the traffic of agents.
func writtenTables(t testing.TB, pages, agents int) map[string][]byte {
	t.Helper()
	_, visitorRows := written(t, sample(), traffic(pages))
	_, agentRows := written(t, agentSample(), yields(agentTraffic(agents)...))
	path := filepath.Join(t.TempDir(), "totals")
	check(t, WriteTotals(path, sample()))
	totals, err := os.ReadFile(path)
	check(t, err)
	return map[string][]byte{"visitors": visitorRows, "agents": agentRows, "totals": totals}
}

// reread opens path and reads it whole.
func reread[R analytics.RowType](path string) (rev analytics.Revision, rows []R, err error) {
	f, err := Open(path)
	if err != nil {
		return rev, nil, err
	}
	for r, err := range analytics.Rows[R](f.Rows()) {
		if err != nil {
			return f.Revision(), rows, err
		}
		rows = append(rows, r)
	}
	return f.Revision(), rows, nil
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	count := rapid.Int64()
	row := rapid.Custom(func(t *rapid.T) analytics.Row {
		return analytics.Row{Path: rapid.String().Draw(t, "path"), Totals: analytics.Totals{Human: count.Draw(t, "human"),
			AI: count.Draw(t, "ai"), Total: count.Draw(t, "total")}}
	})
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfDistinct(row, func(r analytics.Row) string { return r.Path }).Draw(t, "rows")
		slices.SortFunc(rows, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
		rev := sample()
		rev.Number = rapid.Int32Min(1).Draw(t, "revision")
		rev.Settled = rapid.Bool().Draw(t, "settled")
		rev.Totals.Total = count.Draw(t, "total")
		rev.ExportedAt = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "nanos"))
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		wrote, err := Write(path, rev, analytics.Records(yields(rows...)))
		check(t, err)
		got, gotRows, err := reread[analytics.Row](path)
		check(t, err)
		if diff := cmp.Diff(wrote, got); diff != "" {
			t.Errorf("Write returned (-) and Open reads (+):\n%s", diff)
		}
		if d := rev.ExportedAt.Sub(got.ExportedAt); got.Rows != int64(len(rows)) || d < 0 || d >= time.Microsecond {
			t.Errorf("row count %d for %d rows; time off by %s", got.Rows, len(rows), d)
		}
		if diff := cmp.Diff(rows, gotRows); len(rows) > 0 && diff != "" {
			t.Errorf("rows (-wrote +read):\n%s", diff)
		}
	})
}

// countedWrites counts the writes that come to it.
type countedWrites int

func (w *countedWrites) Write(p []byte) (int, error) {
	*w++
	return len(p), nil
}

func TestSmallFileIsOneWrite(t *testing.T) {
	var writes countedWrites
	err := write(&writes, totalsSchema(), func(w *file.Writer) error {
		return encodeTotals(w,
			sample())
	})
	if err != nil || writes != 1 {
		t.Errorf("%d writes, %v; want 1", writes, err)
	}
}

func TestRowGroupsEndAtBothLimits(t *testing.T) {
	long := strings.Repeat("p", 8<<10)
	for name, tc := range map[string]struct {
		n      int
		path   func(i int) string
		groups int
	}{
		"rows":  {groupRows + 1, func(i int) string { return fmt.Sprintf("/%07d", i) }, 2},
		"bytes": {2000, func(i int) string { return fmt.Sprintf("/%s%07d", long, i) }, 8},
	} {
		t.Run(name, func(t *testing.T) {
			path, data := written(t, sample(), func(yield func(analytics.Row, error) bool) {
				for i := range tc.n {
					if !yield(analytics.Row{Path: tc.path(i), Totals: analytics.Totals{Human: int64(i), AI: 1, Total: int64(i) + 1}},
						nil) {
						return
					}
				}
			})
			_, got, err := reread[analytics.Row](path)
			if err != nil || len(got) != tc.n || got[tc.n-1].Path != tc.path(tc.n-1) ||
				got[tc.n-1].Human != int64(tc.n-1) {
				t.Fatalf("read %d rows, %v; want %d", len(got), err, tc.n)
			}
			if r := footer(t, path); r.NumRowGroups() != tc.groups {
				t.Errorf("%d row groups, want %d", r.NumRowGroups(), tc.groups)
			}
			_, b, err := ReadBounds(bytes.NewReader(data), int64(len(data)))
			// A text longer than a footer takes has no bounds.
			if _, text := b.Texts["path"]; err != nil || b.Counts["human"] != [2]int64{0, int64(tc.n - 1)} ||
				text != (len(tc.path(0)) < len(long)) {
				t.Errorf("bounds %v, %v", b, err)
			}
		})
	}
}

// TestRowsOf: the row of a path is the one that all rows have, wherever it is in pages and row groups.
func TestRowsOf(t *testing.T) {
	rows := slices.Collect(func(yield func(analytics.Row) bool) {
		for row := range traffic(groupRows + 3*batchRows) {
			if !yield(row) {
				return
			}
		}
	})
	path, _ := written(t, sample(), yields(rows...))
	f, err := Open(path)
	check(t, err)
	rowsAt := func(path string) (found []analytics.Row) {
		for row, err := range analytics.Rows[analytics.Row](f.RowsOf(path)) {
			check(t, err)
			found = append(found, row)
		}
		return found
	}
	for _, i := range []int{0, 1, batchRows - 1, batchRows, 9 * batchRows, groupRows - 1, groupRows, len(rows) - 1} {
		if diff := cmp.Diff(rows[i:i+1], rowsAt(rows[i].Path)); diff != "" {
			t.Errorf("row %d (-all +of):\n%s", i, diff)
		}
		if got := rowsAt(rows[i].Path + "x"); got != nil {
			t.Errorf("%sx: %v", rows[i].Path, got)
		}
	}
	if got := slices.Concat(rowsAt(""), rowsAt("~")); got != nil {
		t.Errorf("paths before and after all: %v", got)
	}
	rev := sample()
	rev.Rows = analytics.TotalsOnlyRows
	path, _ = written(t, rev, yields[analytics.Row]())
	f, err = Open(path)
	check(t, err)
	if got := rowsAt(rows[0].Path); got != nil {
		t.Errorf("of a file of totals: %v", got)
	}
}

func footer(t *testing.T, path string) *file.Reader {
	t.Helper()
	r, err := file.OpenParquetFile(path, false)
	check(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func TestFormat(t *testing.T) {
	path, _ := written(t, sample(), traffic(1000))
	r := footer(t, path)
	if got := r.MetaData().GetCreatedBy(); got != createdBy {
		t.Errorf("created by %q", got)
	}
	if kv := r.MetaData().KeyValueMetadata(); kv.Len() != 16 || kv.FindValue("ARROW:schema") != nil {
		t.Errorf("metadata keys %q", kv.Keys())
	}
	for i := range r.MetaData().NumColumns() {
		c, err := r.RowGroup(0).MetaData().ColumnChunk(i)
		check(t, err)
		name := c.PathInSchema().String()
		if set, err := c.StatsSet(); !set || err != nil {
			t.Errorf("%s: statistics %t, %v", name, set, err)
		}
		if c.Compression() != compress.Codecs.Zstd {
			t.Errorf("%s: %s", name, c.Compression())
		}
		if c.BloomFilterOffset() != 0 || c.GetColumnIndexLocation() != nil {
			t.Errorf("%s: has a page index or a bloom filter", name)
		}
		if c.HasDictionaryPage() == (name == "path" || name == "settled" || name == "verified") {
			t.Errorf("%s: dictionary %t", name, c.HasDictionaryPage())
		}
	}
}

func TestTotalsFiles(t *testing.T) {
	dir := t.TempDir()
	only := sample()
	only.Rows = analytics.TotalsOnlyRows
	path := filepath.Join(dir, "only")
	if wrote, err := Write(path, only, analytics.Records(noRows)); err != nil || wrote.Rows != analytics.TotalsOnlyRows {
		t.Fatalf("Write = %+v, %v", wrote, err)
	}
	if got, rows, err := reread[analytics.Row](path); err != nil || rows != nil || !cmp.Equal(got, only) {
		t.Errorf("read %+v, %v, %v", got, rows, err)
	}

	with := sample()
	with.Rows = 42
	path = filepath.Join(dir, "with rows")
	check(t, WriteTotals(path, with))
	data, err := os.ReadFile(path)
	check(t, err)
	if foot, _, err := inspected(data); err != nil || !cmp.Equal(foot.Revision, with) {
		t.Errorf("the footer has %+v, %v", foot, err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "visitors file") {
		t.Errorf("Open takes the totals of a window with rows for its visitors file: %v", err)
	}
}

func TestWriteLeavesNothingAfterAnError(t *testing.T) {
	boom := errors.New("boom")
	change := func(f func(*analytics.Revision)) analytics.Revision { r := sample(); f(&r); return r }
	for name, tc := range map[string]struct {
		rev  analytics.Revision
		rows iter.Seq2[analytics.Row, error]
		want string
	}{
		"twice":     {sample(), yields(analytics.Row{Path: "/a"}, analytics.Row{Path: "/a"}), "twice"},
		"unsorted":  {sample(), yields(analytics.Row{Path: "/b"}, analytics.Row{Path: "/a"}), "sorted"},
		"not UTF-8": {sample(), yields(analytics.Row{Path: "/\xff"}), "UTF-8"},
		"error of the rows": {sample(), func(yield func(analytics.Row, error) bool) {
			_ = yield(analytics.Row{Path: "/a"}, nil) && yield(analytics.Row{}, boom)
		}, "boom"},
		"project":  {change(func(r *analytics.Revision) { r.Project = "../a" }), noRows, "project"},
		"grain":    {change(func(r *analytics.Revision) { r.Granularity = "hour" }), noRows, "granularity"},
		"window":   {change(func(r *analytics.Revision) { r.To = r.From }), noRows, "must begin before it ends"},
		"year":     {change(func(r *analytics.Revision) { r.To = 1 << 30 }), noRows, "date"},
		"revision": {change(func(r *analytics.Revision) { r.Number = 0 }), noRows, "count from 1"},
		"time":     {change(func(r *analytics.Revision) { r.ExportedAt = time.Time{} }), noRows, "exported_at"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "w")
			_, err := Write(path, tc.rev, analytics.Records(tc.rows))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one with %q and the file", err, tc.want)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something is left: %v", err)
			}
		})
	}
}

func TestWriteKeepsAFileThatIsThere(t *testing.T) {
	path, _ := written(t, sample(), yields(analytics.Row{Path: "/a"}))
	if _, err := Write(path, sample(), analytics.Records(noRows)); !errors.Is(err, os.ErrExist) {
		t.Errorf("second Write: %v", err)
	}
	if _, rows, err := reread[analytics.Row](path); err != nil || len(rows) != 1 {
		t.Errorf("the first file reads %v, %v", rows, err)
	}
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	out, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check(t, err)
	defer out.Close()
	err = write(out, totalsSchema(), func(w *file.Writer) error {
		return encodeTotals(w,
			sample())
	})
	if err == nil {
		t.Error("a full disk is no error")
	}
}

// TestDamage cuts a file short and flips bits: Inspect finds each cut and each bit,
// and never panics.
func TestDamage(t *testing.T) {
	for name, data := range writtenTables(t, 50, 25) {
		t.Run(name, func(t *testing.T) {
			if _, _, err := inspected(data); err != nil {
				t.Fatalf("the whole file: %v", err)
			}
			for n := range data {
				if _, _, err := inspected(data[:n]); err == nil {
					t.Errorf("cut at %d of %d bytes it still reads", n, len(data))
				}
				flipped := slices.Clone(data)
				flipped[n] ^= 1 << (n % 8)
				if _, _, err := inspected(flipped); err == nil {
					t.Errorf("bit %d of byte %d of %d is not found", n%8, n, len(data))
				}
			}
		})
	}
}

func inspected(data []byte) (Footer, analytics.Sum, error) {
	return Inspect(bytes.NewReader(data), int64(len(data)))
}

func TestDamagedFile(t *testing.T) {
	path, data := written(t, sample(), traffic(5000))
	f, err := Open(path)
	check(t, err)
	if err := f.read(intact); err != nil {
		t.Errorf("a whole file: %v", err)
	}
	var sum analytics.Checksum
	for r := range traffic(5000) {
		analytics.VisitorsReport.Shape().Checksum(&sum, analytics.RecordOf(r))
	}
	if f.Checksum() != sum.String() {
		t.Errorf("checksum %q, the rows have %s", f.Checksum(), sum)
	}
	data[len(data)/2] ^= 1
	check(t, os.WriteFile(path, data, 0o600))
	if err := f.read(intact); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("after a bit was flipped: %v", err)
	}
}

// TestNoCRC: a file without a CRC is not taken for whole.
func TestNoCRC(t *testing.T) {
	_, data := written(t, sample(), traffic(3))
	if _, _, err := inspected(bytes.ReplaceAll(data, []byte(crcKey), []byte("docgauge.other_"))); err == nil {
		t.Error("it is taken for whole")
	}
}

// TestCRCInAPath has a path that looks like the place of the CRC.
func TestCRCInAPath(t *testing.T) {
	_, data := written(t, sample(), yields(analytics.Row{Path: string(crcMark) + crcBlank}))
	if _, sum, err := inspected(data); err != nil || sum.Rows != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	err := create(path, func(out *os.File) error {
		return write(out, totalsSchema(), func(w *file.Writer) error {
			if err := w.AppendKeyValueMetadata(keyPrefix+"schema_version", "2"); err != nil {
				return err
			}
			return encodeTotals(w, sample())
		})
	})
	check(t, err)
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("Open = %v, want the remedy", err)
	}
}

func TestRowsCanStopAndStartAgain(t *testing.T) {
	path, _ := written(t, sample(), traffic(5000))
	f, err := Open(path)
	check(t, err)
	for range f.Rows() {
		break
	}
	n := 0
	for _, err := range f.Rows() {
		check(t, err)
		n++
	}
	if n != 5000 {
		t.Errorf("%d rows the second time", n)
	}
}

func TestRowsOfAnExchangedFile(t *testing.T) {
	path, _ := written(t, sample(), traffic(10))
	f, err := Open(path)
	check(t, err)
	check(t, os.Remove(path))
	_, err = Write(path, sample(), analytics.Records(traffic(9)))
	check(t, err)
	for _, err = range f.Rows() {
	}
	if err == nil || !strings.Contains(err.Error(), "9 rows") {
		t.Errorf("Rows end with %v", err)
	}
}

func FuzzReadFooter(f *testing.F) {
	for _, n := range []int{0, 3} {
		_, data := written(f, sample(), traffic(n))
		f.Add(data)
	}
	_, data := written(f, agentSample(), yields(agentTraffic(3)...))
	f.Add(data)
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		foot, err := ReadFooter(strings.NewReader(string(data)), int64(len(data)))
		if err != nil {
			return
		}
		if again, err := checked(foot.Revision); err != nil || !cmp.Equal(again, foot.Revision) {
			t.Errorf("accepts %+v: %v", foot, err)
		}
		if want, err := libraryFooter(data); !errors.Is(err, errLibrary) && (err != nil || !cmp.Equal(foot, want)) {
			t.Errorf("reads %+v, want %+v", foot, want)
		}
	})
}

// TestQuickFooter: the footer of each kind of file is read without the library once it has accepted the schema. Of
// damaged footers, what is read without it is what the library reads, if it reads them.
func TestQuickFooter(t *testing.T) {
	for table, data := range writtenTables(t, 3, 3) {
		want, err := ReadFooter(bytes.NewReader(data), int64(len(data)))
		check(t, err)
		encoded := encodedFooter(io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
		if got, ok := quickFooter(encoded); !ok || !cmp.Equal(got, want) || want.Table != table {
			t.Errorf("%s: %t, %+v, want %+v", table, ok, got, want)
		}
		first := len(data) - footerEnd - len(encoded)
		schema := bytes.Index(data[first:], splitFooter(encoded).schema)
		for i := range encoded {
			for _, flip := range []byte{1, 0xff} {
				damaged := slices.Clone(data)
				damaged[first+i] ^= flip
				got, ok := quickFooter(damaged[first : len(data)-footerEnd])
				if ok && i >= schema && i < schema+len(splitFooter(encoded).schema) {
					t.Errorf("%s: accepted with another schema, at %d", table, i)
				}
				if want, err := libraryFooter(damaged); ok && !errors.Is(err, errLibrary) && (err != nil || !cmp.Equal(got, want)) {
					t.Errorf("%s: byte %d: %+v, want %+v, %v", table, i, got, want, err)
				}
			}
		}
	}
}

var errLibrary = errors.New("the library cannot read it")

func libraryFooter(data []byte) (foot Footer, err error) {
	defer func() {
		if recover() != nil {
			err = errLibrary
		}
	}()
	r, err := newReader(io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
	if err != nil {
		return foot, errLibrary
	}
	return parseFooter(r.MetaData())
}

// TestWrittenAtOnce writes and reads files concurrently, for the race detector:
// they share nothing that changes.
func TestWrittenAtOnce(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			path := filepath.Join(dir, strconv.Itoa(i))
			if _, err := Write(path, sample(), analytics.Records(traffic(50))); err != nil {
				t.Error(err)
				return
			}
			if err := WriteTotals(path+".totals", sample()); err != nil {
				t.Error(err)
			}
			if _, err := Open(path); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
