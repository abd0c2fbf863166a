package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/parquet/file"
)

// The bytes of a file are under a CRC-32C that stands in its own footer, as 8
// hexadecimal digits; it is that of the file with these digits 0. So each copy of
// a file, in the spool or published, tells whether it is what was written.
const (
	crcKey    = keyPrefix + "crc32c"
	crcDigits = 8
	// crcBlank stands in the footer until the file is written.
	crcBlank = "00000000"
	// footerEnd is the length of the footer and the magic that end a file.
	footerEnd = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcMark is what stands before the digits: the key, and the field header and
// length of its value in Thrift's compact protocol.
var crcMark = append([]byte(crcKey), 0x18, crcDigits)

// ErrDamaged: the bytes of a file are not those that were written.
var ErrDamaged = errors.New("the bytes are not those that were written, by the file's CRC-32C")

// sumWriter adds up what is written. It hides the file's Close from the Parquet
// writer, which would close the file before it is flushed to disk.
type sumWriter struct {
	to  io.Writer
	sum hash.Hash32
	n   int64
}

func (w *sumWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.sum.Write(p[:n]) // never fails
	w.n += int64(n)
	return n, err
}

// stamp puts the CRC of a file that is written into its footer.
func stamp(out *os.File, w *sumWriter) error {
	at, err := crcPlace(io.NewSectionReader(out, 0, w.n))
	if err != nil {
		return err
	}
	_, err = out.WriteAt(fmt.Appendf(nil, "%08x", w.sum.Sum32()), at)
	return err
}

// crcPlace returns where the digits stand. The metadata come after all that
// paths are in, so the last mark is the one.
func crcPlace(r *io.SectionReader) (int64, error) {
	var end [4]byte
	if _, err := r.ReadAt(end[:], r.Size()-footerEnd); err != nil {
		return 0, fmt.Errorf("not a Parquet file, %d bytes: %w", r.Size(), err)
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > min(maxFooter, r.Size()-footerEnd) {
		return 0, fmt.Errorf("footer of %d bytes: damaged", length)
	}
	footer := make([]byte, length)
	begin := r.Size() - footerEnd - length
	if _, err := r.ReadAt(footer, begin); err != nil {
		return 0, err
	}
	i := bytes.LastIndex(footer, crcMark)
	if i < 0 || i+len(crcMark)+crcDigits > len(footer) {
		return 0, fmt.Errorf("metadata %s: missing", crcKey)
	}
	return begin + int64(i+len(crcMark)), nil
}

// Intact reads the whole file and returns [ErrDamaged] where its bytes are not
// those that were written. Of a file by a version that wrote no CRC it cannot
// tell, and returns nil.
func (f *File) Intact() error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err == nil {
		err = intact(io.NewSectionReader(in, 0, info.Size()))
	}
	if err != nil {
		return fmt.Errorf("window file %s: %w", f.path, err)
	}
	return nil
}

func intact(r *io.SectionReader) (err error) {
	defer caught(&err)
	reader, err := newReader(r)
	if err != nil {
		return err
	}
	if unstamped(reader) {
		return nil
	}
	at, err := crcPlace(r)
	if err != nil {
		return err
	}
	digits := make([]byte, crcDigits)
	if _, err := r.ReadAt(digits, at); err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	for _, part := range []io.Reader{
		io.NewSectionReader(r, 0, at), bytes.NewReader([]byte(crcBlank)),
		io.NewSectionReader(r, at+crcDigits, r.Size()-at-crcDigits),
	} {
		if _, err := io.Copy(sum, part); err != nil {
			return err
		}
	}
	if fmt.Sprintf("%08x", sum.Sum32()) != string(digits) {
		return ErrDamaged
	}
	return nil
}

// unstamped reports whether the file is by a version that wrote no CRC.
func unstamped(r *file.Reader) bool {
	return r.MetaData().GetCreatedBy() == createdByFormer && r.MetaData().KeyValueMetadata().FindValue(crcKey) == nil
}
