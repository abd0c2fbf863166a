package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/docgauge/docgauge/internal/analytics"
)

// A file's own footer holds a CRC-32C of its bytes, as 8 hexadecimal digits; it is
// computed with these digits 0. So each copy of a file, in the spool or published,
// shows whether it is damaged.
const (
	crcKey    = keyPrefix + "crc32c"
	crcDigits = 8
	// crcBlank is in the footer until the file is written.
	crcBlank = "00000000"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcMark comes before the digits: the key, and the field header and length of its
// value in Thrift's compact protocol.
var crcMark = append([]byte(crcKey), 0x18, crcDigits)

// ErrDamaged: the bytes of a file are not those that were written.
var ErrDamaged = errors.New("the bytes are not those that were written, by the file's CRC-32C")

// crcOffset returns where the digits are in bytes that end with a footer. The metadata
// come after everything that contains paths, so the last mark is the right one.
func crcOffset(footer []byte) (int, error) {
	i := bytes.LastIndex(footer, crcMark)
	if i < 0 || i+len(crcMark)+crcDigits > len(footer) {
		return 0, fmt.Errorf("metadata %s: missing", crcKey)
	}
	return i + len(crcMark), nil
}

// intact reads a whole file and returns [ErrDamaged] if its bytes are not those that were written.
func intact(r *io.SectionReader) error {
	length, err := footerLength(r)
	if err != nil {
		return err
	}
	footer := make([]byte, length)
	begin := r.Size() - footerEnd - length
	if _, err := r.ReadAt(footer, begin); err != nil {
		return err
	}
	i, err := crcOffset(footer)
	if err != nil {
		return err
	}
	digits, at := footer[i:i+crcDigits], begin+int64(i)
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.MultiReader(
		io.NewSectionReader(r, 0, at), strings.NewReader(crcBlank),
		io.NewSectionReader(r, at+crcDigits, r.Size()-at-crcDigits),
	)); err != nil {
		return err
	}
	if fmt.Sprintf("%08x", sum.Sum32()) != string(digits) {
		return ErrDamaged
	}
	return nil
}

// ReadIntact is [ReadFooter] for a file whose bytes are those that were written, else
// [ErrDamaged].
func ReadIntact(r io.ReaderAt, size int64) (Footer, error) {
	section := io.NewSectionReader(r, 0, size)
	foot, err := readFooter(section)
	if err == nil {
		err = intact(section)
	}
	return foot, err
}

// Inspect reads the window file in r, of any shape, which is size bytes
// long, to its end. It adds up the rows of a visitors or agents file, and returns an error
// if anything that can be checked differs from the time of writing: the bytes, the
// order and number of the rows, their checksum, or the one row of a totals file.
func Inspect(r io.ReaderAt, size int64) (foot Footer, sum analytics.Sum, err error) {
	section := io.NewSectionReader(r, 0, size)
	if foot, err = readFooter(section); err != nil {
		return foot, sum, err
	}
	if err := intact(section); err != nil {
		return foot, sum, err
	}
	if foot.IsTotals() {
		return foot, sum, checkTotals(section, foot.Revision)
	}
	sum, err = sumOf(section, foot.Report.Shape(), foot.rowsInFile())
	if err == nil && sum.Rows != max(foot.Rows, 0) {
		err = fmt.Errorf("has %d rows with a path, its footer says %d", sum.Rows, foot.Rows)
	}
	if err == nil && foot.Checksum != "" && foot.Checksum != sum.Checksum.String() {
		err = fmt.Errorf("its rows have the checksum %s, its footer says %s", sum.Checksum, foot.Checksum)
	}
	return foot, sum, err
}

// ErrOther: the file belongs to another revision.
var ErrOther = errors.New("file of another revision")

// checkTotals compares the row of a totals file with its footer.
func checkTotals(r *io.SectionReader, rev analytics.Revision) (err error) {
	defer caught(&err)
	reader, err := newReader(r)
	if err != nil {
		return err
	}
	schema, counts := reader.MetaData().Schema, rev.Totals.Fields()
	for i, want := range append(counts, &rev.Rows) {
		index := pathIndex + i
		if want == &rev.Rows {
			index = schema.NumColumns() - 1
		}
		c, err := reader.RowGroup(0).Column(index)
		if err != nil {
			return err
		}
		var got [1]int64
		if _, _, err := c.(*file.Int64ColumnChunkReader).ReadBatch(1, got[:], nil, nil); err != nil {
			return err
		}
		if got[0] != *want {
			return fmt.Errorf("column %s is %d, the footer says %d", c.Descriptor().Name(), got[0], *want)
		}
	}
	c, err := reader.RowGroup(0).Column(pathIndex + len(counts))
	if err != nil {
		return err
	}
	var mode [1]parquet.ByteArray
	if _, _, err := c.(*file.ByteArrayColumnChunkReader).ReadBatch(1, mode[:], nil, nil); err != nil {
		return err
	}
	if string(mode[0]) != string(rev.Humans) {
		return fmt.Errorf("column humans is %q, the footer says %q", mode[0], rev.Humans)
	}
	return nil
}
