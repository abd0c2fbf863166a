package archive

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// TestWriteTable reads a table of several row groups back; an error in the middle is returned.
func TestWriteTable(t *testing.T) {
	const rows = 2*groupRows + 1
	failed := errors.New("failed")
	for _, fails := range []bool{false, true} {
		var out bytes.Buffer
		err := WriteTable(&out, []string{"page", "agent"}, []string{"requests"},
			func(add func([]string, []int64) error) error {
				for i := range rows {
					if err := add([]string{strconv.Itoa(i), "ä"}, []int64{int64(-i)}); err != nil {
						return err
					}
				}
				if fails {
					return failed
				}
				return nil
			})
		if fails {
			if !errors.Is(err, failed) {
				t.Errorf("%v", err)
			}
			continue
		}
		check(t, err)
		r, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
		check(t, err)
		at := 0
		for g := range r.NumRowGroups() {
			group := r.RowGroup(g)
			n := int(group.NumRows())
			pages, numbers := make([]parquet.ByteArray, n), make([]int64, n)
			first, err := group.Column(0)
			check(t, err)
			last, err := group.Column(2)
			check(t, err)
			for read := 0; read < n; {
				_, got, err := first.(*file.ByteArrayColumnChunkReader).ReadBatch(1, pages[read:], nil, nil)
				if err != nil || string(pages[read]) != strconv.Itoa(at+read) {
					t.Fatalf("row %d: %q, %v", at+read, pages[read], err)
				}
				read += got
			}
			if _, got, err := last.(*file.Int64ColumnChunkReader).ReadBatch(int64(n), numbers, nil, nil); err != nil ||
				got != n || numbers[n-1] != int64(-(at+n-1)) {
				t.Errorf("group %d: %d numbers, %v", g, got, err)
			}
			at += n
		}
		if at != rows || r.NumRows() != rows {
			t.Errorf("%d rows, want %d", at, rows)
		}
	}
}
