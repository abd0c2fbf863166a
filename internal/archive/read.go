package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/docgauge/docgauge/internal/analytics"
)

// maxFooter is the longest footer that is read, in bytes: ours take a few
// hundred bytes a column and row group, so a longer one is damage.
const maxFooter = 64 << 20

// File is a sealed window file: a visitors file, or the totals file of a
// window of which only totals were read. It holds no open file, and it may be
// used by many goroutines at once.
type File struct {
	path string
	foot Footer
}

// Footer is what the footer of a file tells.
type Footer struct {
	analytics.Revision
	// Checksum is the [analytics.Checksum] of the rows of a visitors file; empty
	// where the file was written by a version that kept none.
	Checksum string
	// Visitors: the file has a row for each path; else it is a totals file.
	Visitors bool
}

// Open reads the footer of the window file at path and checks it: schema
// version, columns, every docgauge.* key, and the number of rows. It refuses
// the totals file of a window that has rows elsewhere. Errors name the file
// and the rule it breaks.
func Open(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("window file: %w", err)
	}
	defer in.Close()
	section, err := whole(in)
	if err != nil {
		return nil, fmt.Errorf("window file %s: %w", path, err)
	}
	foot, err := readFooter(section)
	if err == nil && !foot.Visitors && !foot.TotalsOnly() {
		err = fmt.Errorf("is the totals file of a window with %d rows, want its visitors file", foot.Rows)
	}
	if err != nil {
		return nil, fmt.Errorf("window file %s: %w", path, err)
	}
	return &File{path: path, foot: foot}, nil
}

func whole(in *os.File) (*io.SectionReader, error) {
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(in, 0, info.Size()), nil
}

// Revision returns what the file's footer tells.
func (f *File) Revision() analytics.Revision { return f.foot.Revision }

// Checksum returns that of the rows, as the file's footer tells; empty where the
// file has no rows or was written by a version that kept none.
func (f *File) Checksum() string { return f.foot.Checksum }

// Path returns the name that f was opened by.
func (f *File) Path() string { return f.path }

// Open opens the file itself for reading; the caller closes it.
func (f *File) Open() (*os.File, error) { return os.Open(f.path) }

// ReadRevision is [ReadFooter] for who wants the revision alone.
func ReadRevision(r io.ReaderAt, size int64) (analytics.Revision, error) {
	foot, err := ReadFooter(r, size)
	return foot.Revision, err
}

// ReadFooter reads the footer of a window file, visitors or totals, in r,
// which is size bytes long, with the checks of [Open]. It reads the footer
// only, and it returns an error for any damaged input.
func ReadFooter(r io.ReaderAt, size int64) (Footer, error) {
	return readFooter(io.NewSectionReader(r, 0, size))
}

func readFooter(r *io.SectionReader) (foot Footer, err error) {
	defer caught(&err)
	reader, err := newReader(r)
	if err != nil {
		return foot, err
	}
	return footerOf(reader)
}

func footerOf(reader *file.Reader) (foot Footer, err error) {
	meta := reader.MetaData()
	kv := meta.KeyValueMetadata()
	if foot.Revision, err = revisionFrom(kv); err != nil {
		return foot, err
	}
	if sum := kv.FindValue(checksumKey); sum != nil {
		foot.Checksum = *sum
	}
	switch root := meta.Schema.Root(); {
	case root.Equals(visitorsSchema()):
		foot.Visitors = true
		return foot, checkRows(meta, foot.Rows)
	case root.Equals(totalsSchema()):
		return foot, checkRows(meta, 1)
	}
	return foot, errors.New("columns are neither those of a visitors file nor those of a totals file")
}

func newReader(r *io.SectionReader) (*file.Reader, error) {
	var tail [4]byte
	if _, err := r.ReadAt(tail[:], r.Size()-8); err != nil {
		return nil, fmt.Errorf("not a Parquet file, %d bytes: %w", r.Size(), err)
	}
	if n := binary.LittleEndian.Uint32(tail[:]); n > maxFooter {
		return nil, fmt.Errorf("footer of %d bytes: window files have at most %d", n, maxFooter)
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	return file.NewParquetReader(r, file.WithReadProps(props))
}

// checkRows compares the rows that the footer counts, whole and by row group,
// with the number there must be.
func checkRows(meta *metadata.FileMetaData, want int64) error {
	var groups int64
	for _, g := range meta.RowGroups {
		if g.GetNumRows() < 0 {
			return errors.New("a row group counts fewer than 0 rows")
		}
		groups += g.GetNumRows()
	}
	if got := meta.GetNumRows(); got != want || groups != want {
		return fmt.Errorf("the footer counts %d rows, its row groups %d; there must be %d", got, groups, want)
	}
	return nil
}
