package archive

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// WriteTable writes a Parquet file that is no window file: columns of texts, then of whole numbers. rows
// calls add with each row. After an error the file is of no use.
func WriteTable(
	to io.Writer, texts, numbers []string, rows func(add func(texts []string, numbers []int64) error) error,
) (err error) {
	defer caught(&err)
	var columns schema.FieldList
	for _, name := range texts {
		columns = append(columns, text(name))
	}
	for _, name := range numbers {
		columns = append(columns, integer(name))
	}
	w, err := file.NewParquetWriterWithError(to, group(columns), file.WithWriterProps(properties()))
	if err != nil {
		return err
	}
	words, counts, n := make([][]parquet.ByteArray, len(texts)), make([][]int64, len(numbers)), 0
	flush := func() error {
		var fills []fill
		for i := range words {
			fills = append(fills, values(words[i]))
		}
		for i := range counts {
			fills = append(fills, values(counts[i]))
		}
		err := writeGroup(w, n, fills)
		for i := range words {
			words[i] = words[i][:0]
		}
		for i := range counts {
			counts[i] = counts[i][:0]
		}
		n = 0
		return err
	}
	err = rows(func(row []string, numbers []int64) error {
		for i, text := range row {
			words[i] = append(words[i], parquet.ByteArray(text))
		}
		for i, number := range numbers {
			counts[i] = append(counts[i], number)
		}
		if n++; n < groupRows {
			return nil
		}
		return flush()
	})
	if err == nil && n > 0 {
		err = flush()
	}
	return errors.Join(err, w.Close())
}
