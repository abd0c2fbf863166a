package archive

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Inspect reads the window file in r, visitors or totals, which is size bytes
// long, to its end: it adds up the rows of a visitors file, and returns an error
// where anything that can be tested is not as it was written: the bytes, the
// order and number of the rows, their checksum, or the one row of a totals file.
func Inspect(r io.ReaderAt, size int64) (Footer, analytics.Sum, error) {
	return InspectRows(r, size, func(analytics.Row) {})
}

// InspectRows is [Inspect], and calls visit for each row of a visitors file. Rows are
// visited before what follows them was tested: after an error they do not count.
func InspectRows(r io.ReaderAt, size int64, visit func(analytics.Row)) (foot Footer, sum analytics.Sum, err error) {
	section := io.NewSectionReader(r, 0, size)
	if foot, err = readFooter(section); err != nil {
		return foot, sum, err
	}
	if err := intact(section); err != nil {
		return foot, sum, err
	}
	if !foot.Visitors {
		return foot, sum, checkTotals(section, foot.Revision)
	}
	err = scan(section, foot.Rows, func(r analytics.Row) bool {
		sum.Add(r)
		visit(r)
		return true
	})
	if err == nil && foot.Checksum != "" && foot.Checksum != sum.Checksum.String() {
		err = fmt.Errorf("its rows have the checksum %s, its footer tells %s", sum.Checksum, foot.Checksum)
	}
	return foot, sum, err
}

// checkTotals compares the row of a totals file with its footer.
func checkTotals(r *io.SectionReader, rev analytics.Revision) (err error) {
	defer caught(&err)
	reader, err := newReader(r)
	if err != nil {
		return err
	}
	want := [...]int64{rev.Totals.Human, rev.Totals.AI, rev.Totals.Total, rev.Rows}
	for i, index := range totalsIndexes {
		c, err := reader.RowGroup(0).Column(index)
		if err != nil {
			return err
		}
		var got [1]int64
		if _, _, err := c.(*file.Int64ColumnChunkReader).ReadBatch(1, got[:], nil, nil); err != nil {
			return err
		}
		if got[0] != want[i] {
			return fmt.Errorf("column %s is %d, the footer tells %d", c.Descriptor().Name(), got[0], want[i])
		}
	}
	return nil
}
