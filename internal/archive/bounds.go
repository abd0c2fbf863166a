package archive

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// Bounds are the least and the greatest values of the columns of a visitors or agents file from path to
// the counts, as its footer has them. A column is missing where a row group says nothing of it: a file
// without a row has none, and very long texts are left out.
type Bounds struct {
	Texts  map[string][2]string
	Counts map[string][2]int64
}

// ReadBounds is [ReadFooter] for a visitors or agents file, with its bounds.
func ReadBounds(r io.ReaderAt, size int64) (foot Footer, b Bounds, err error) {
	defer caught(&err)
	reader, err := newReader(io.NewSectionReader(r, 0, size))
	if err != nil {
		return foot, b, err
	}
	meta := reader.MetaData()
	foot, err = parseFooter(meta)
	if err == nil && foot.IsTotals() {
		err = errors.New("is not a visitors or agents file")
	}
	if err != nil {
		return foot, b, err
	}
	b = Bounds{map[string][2]string{}, map[string][2]int64{}}
	for i := pathIndex; i < meta.Schema.NumColumns()-len(readingColumns()) && err == nil; i++ {
		switch column := meta.Schema.Column(i); column.PhysicalType() {
		case parquet.Types.ByteArray:
			err = bounds(meta, i, b.Texts, func(s metadata.TypedStatistics) (string, string) {
				text := s.(*metadata.ByteArrayStatistics)
				return string(text.Min()), string(text.Max())
			})
		case parquet.Types.Int64:
			err = bounds(meta, i, b.Counts, func(s metadata.TypedStatistics) (int64, int64) {
				count := s.(*metadata.Int64Statistics)
				return count.Min(), count.Max()
			})
		}
	}
	return foot, b, err
}

// bounds merges what the row groups say of a column.
func bounds[T string | int64](meta *metadata.FileMetaData, column int, into map[string][2]T,
	read func(metadata.TypedStatistics) (T, T)) error {
	var all *[2]T
	for i := range meta.RowGroups {
		chunk, err := meta.RowGroup(i).ColumnChunk(column)
		if err != nil {
			return err
		}
		stats, err := chunk.Statistics()
		if err != nil {
			return err
		}
		if stats == nil || !stats.HasMinMax() {
			return nil
		}
		least, greatest := read(stats)
		if all == nil {
			all = &[2]T{least, greatest}
		}
		all[0], all[1] = min(all[0], least), max(all[1], greatest)
	}
	if all != nil {
		into[meta.Schema.Column(column).Name()] = *all
	}
	return nil
}
