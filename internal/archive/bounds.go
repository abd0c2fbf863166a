package archive

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// Bounds are the least and the greatest values of the columns of a visitors file, as its
// footer has them. A column is nil where a row group says nothing of it: a file without a
// row has none, and very long paths are left out.
type Bounds struct {
	Path             *[2]string
	Human, AI, Total *[2]int64
}

// ReadBounds is [ReadFooter] for a visitors file, with its bounds.
func ReadBounds(r io.ReaderAt, size int64) (foot Footer, b Bounds, err error) {
	defer caught(&err)
	reader, err := newReader(io.NewSectionReader(r, 0, size))
	if err != nil {
		return foot, b, err
	}
	meta := reader.MetaData()
	foot, err = parseFooter(meta)
	if err == nil && !foot.Visitors {
		err = errors.New("is not a visitors file")
	}
	if err != nil {
		return foot, b, err
	}
	b.Path, err = bounds(meta, pathIndex, func(s metadata.TypedStatistics) (string, string) {
		text := s.(*metadata.ByteArrayStatistics)
		return string(text.Min()), string(text.Max())
	})
	for i, column := range []**[2]int64{&b.Human, &b.AI, &b.Total} {
		if err != nil {
			break
		}
		*column, err = bounds(meta, countIndexes[i], func(s metadata.TypedStatistics) (int64, int64) {
			count := s.(*metadata.Int64Statistics)
			return count.Min(), count.Max()
		})
	}
	return foot, b, err
}

// bounds merges what the row groups say of a column.
func bounds[T string | int64](
	meta *metadata.FileMetaData, column int, read func(metadata.TypedStatistics) (T, T),
) (*[2]T, error) {
	var all *[2]T
	for i := range meta.RowGroups {
		chunk, err := meta.RowGroup(i).ColumnChunk(column)
		if err != nil {
			return nil, err
		}
		stats, err := chunk.Statistics()
		if err != nil {
			return nil, err
		}
		if stats == nil || !stats.HasMinMax() {
			return nil, nil
		}
		least, greatest := read(stats)
		if all == nil {
			all = &[2]T{least, greatest}
		}
		all[0], all[1] = min(all[0], least), max(all[1], greatest)
	}
	return all, nil
}
