package archive

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/docgauge/docgauge/internal/analytics"
)

// WriteTable writes a Parquet file that is no window file: columns of texts, then of whole numbers. rows
// calls add with each row. After an error the file is unusable.
func WriteTable(
	to io.Writer, texts, numbers []string, rows func(add func(texts []string, numbers []int64) error) error,
) (err error) {
	defer caught(&err)
	var columns schema.FieldList
	var row analytics.Fields
	for _, name := range texts {
		columns, row.Texts = append(columns, text(name)), append(row.Texts, new(string))
	}
	for _, name := range numbers {
		columns, row.Counts = append(columns, integer(name)), append(row.Counts, new(int64))
	}
	w, err := file.NewParquetWriterWithError(to, group(columns), file.WithWriterProps(properties()))
	if err != nil {
		return err
	}
	g := newGroup(row)
	err = rows(func(texts []string, numbers []int64) error {
		for i, text := range texts {
			*row.Texts[i] = text
		}
		for i, number := range numbers {
			*row.Counts[i] = number
		}
		if g.add(row); g.rows < groupRows {
			return nil
		}
		return g.flush(w, nil, nil)
	})
	if err == nil {
		err = g.flush(w, nil, nil)
	}
	return errors.Join(err, w.Close())
}
