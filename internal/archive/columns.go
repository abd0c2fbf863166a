package archive

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/docgauge/docgauge/internal/analytics"
)

// batchRows is how many values are handed to or taken from a column at once.
const batchRows = 1024

// fill writes the n values of one column of a row group.
type fill func(cw file.ColumnChunkWriter, n int) error

// writeGroup writes one row group of n rows, one fill a column, in the order
// of the schema.
func writeGroup(w *file.Writer, n int, fills []fill) error {
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		return err
	}
	for _, fill := range fills {
		cw, err := group.NextColumn()
		if err != nil {
			return err
		}
		if err := fill(cw, n); err != nil {
			return err
		}
	}
	return group.Close()
}

// keyFills fills the columns that name the window.
func keyFills(rev analytics.Revision) []fill {
	return []fill{
		constant(parquet.ByteArray(rev.Project)),
		constant(parquet.ByteArray(rev.Granularity)),
		constant(int32(rev.From)),
		constant(int32(rev.To)),
	}
}

// readingFills fills the columns that tell of the reading.
func readingFills(rev analytics.Revision) []fill {
	return []fill{
		constant(rev.Number),
		constant(rev.Settled),
		constant(rev.Verified),
		constant(rev.ExportedAt.UnixMicro()),
	}
}

// constant fills a column with one value.
func constant[T any](v T) fill {
	batch := slices.Repeat([]T{v}, batchRows)
	return func(cw file.ColumnChunkWriter, n int) error {
		for ; n > 0; n -= batchRows {
			if err := put(cw, batch[:min(n, batchRows)]); err != nil {
				return err
			}
		}
		return nil
	}
}

// values fills a column from a slice.
func values[T any](all []T) fill {
	return func(cw file.ColumnChunkWriter, n int) error { return put(cw, all[:n]) }
}

// texts fills a column from strings that lie in data one after the other, each
// up to its place in ends.
func texts(data []byte, ends []int) fill {
	return func(cw file.ColumnChunkWriter, n int) error {
		batch := make([]parquet.ByteArray, 0, batchRows)
		begin := 0
		for chunk := range slices.Chunk(ends[:n], batchRows) {
			batch = batch[:0]
			for _, end := range chunk {
				batch = append(batch, data[begin:end])
				begin = end
			}
			if err := put(cw, batch); err != nil {
				return err
			}
		}
		return nil
	}
}

func put[T any](cw file.ColumnChunkWriter, batch []T) error {
	w, ok := cw.(interface {
		WriteBatch(values []T, defLevels, repLevels []int16) (int64, error)
	})
	if !ok {
		return fmt.Errorf("column %s does not take %T", cw.Descr().Name(), batch)
	}
	_, err := w.WriteBatch(batch, nil, nil)
	return err
}
