package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// chunkSize is how much of a log is read at once, and the longest line.
	chunkSize = 1 << 20
	// zstdWindow bounds the memory of a decompressor; the program zstd writes less without --long.
	zstdWindow = 128 << 20
)

// errCut is the error of a compressed log that has no end.
var errCut = errors.New("ends too early: it is still being written, or was cut off")

// compression names how a file that begins with head is compressed, empty for a plain one.
func compression(head []byte) string {
	for _, known := range [...]struct{ name, magic string }{
		{"gzip", "\x1f\x8b"}, {"zstd", "\x28\xb5\x2f\xfd"}, {"xz", "\xfd7zXZ"}, {"bzip2", "BZh"},
		{"lz4", "\x04\x22\x4d\x18"},
	} {
		if bytes.HasPrefix(head, []byte(known.magic)) {
			return known.name
		}
	}
	return ""
}

// Decompress returns what r holds, decompressed if it begins as gzip or zstd does.
func Decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 256<<10)
	head, err := b.Peek(5)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch kind := compression(head); kind {
	case "":
		return b, nil
	case "gzip":
		d, err := gzip.NewReader(b)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errCut
		}
		return decompressor{d}, err
	case "zstd":
		d, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return decompressor{d.IOReadCloser()}, nil
	default:
		return nil, fmt.Errorf("is compressed with %s: want plain text, gzip or zstd", kind)
	}
}

// decompressor tells an end that comes too early from the one of a short read.
type decompressor struct{ io.Reader }

func (d decompressor) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	return n, err
}

// Lines are some whole lines of a log.
type Lines struct {
	// First is the number of the first line, from 1.
	First int
	Text  []byte
	// TooLong is the number of lines before it that were longer than a chunk.
	TooLong int
	// Size is the bytes of the lines, also of those that were too long.
	Size int64

	buf *[chunkSize]byte
}

var buffers = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Free lets the memory of the text be used again. Whoever keeps the text does not call it.
func (c Lines) Free() { buffers.Put(c.buf) }

// Part is the part of a log that ReadLines reads.
type Part struct {
	// First is the number of its first line, from 1.
	First int
	// Open: more may be written after it, so that a last line without its end is left out.
	Open bool
	// Stream: chunks come as soon as there are lines, however short.
	Stream bool
}

// ReadLines calls each with the lines of r, in order. If r fails, each gets the whole lines before. NULs, as a crash
// leaves and a server that goes on writing where it was after its log was emptied, may be in the text before a line; as
// many as fill a chunk are not.
func ReadLines(r io.Reader, p Part, each func(Lines) error) error {
	c, buf, held := Lines{First: p.First}, buffers.Get().(*[chunkSize]byte), 0
	isLong, long := false, int64(0) // the line that goes on in buf, and its bytes before
	skipped := int64(0)             // bytes before the line in buf that were passed over: NULs, and a line that they cut
	least := func() int {
		if p.Stream {
			return 1
		}
		return len(buf) - held
	}
	for {
		n, err := io.ReadAtLeast(r, buf[held:], least())
		text, isEnd := buf[:held+n], errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !isEnd {
			err = fmt.Errorf("after line %d: %w", c.First-1+bytes.Count(text, []byte("\n")), err)
		}
		whole := bytes.LastIndexByte(text, '\n') + 1
		if isEnd && !p.Open {
			whole = len(text)
		}
		if isLong {
			at := bytes.IndexByte(text, '\n') + 1
			switch {
			case at > 0:
			case isEnd && !p.Open:
				at = len(text)
			case err == nil:
				held, long = 0, long+int64(len(text))
				continue
			default: // it has no end yet
				text, whole = nil, 0
			}
			if text != nil {
				c.First, c.TooLong, c.Size = c.First+1, c.TooLong+1, c.Size+long+int64(at)
				text, whole = text[at:], max(whole-at, 0)
			}
			isLong, long = false, 0
		}
		if whole == 0 && err == nil {
			nuls := bytes.LastIndexByte(text, 0) + 1
			text, skipped = text[nuls:], skipped+int64(nuls)
			if held = len(text); held == len(buf) {
				isLong, long, held, skipped = true, int64(len(text))+skipped, 0, 0
			} else if held > 0 {
				copy(buf[:], text)
			}
			continue
		}
		c.Text, c.buf, buf = text[:whole], buf, buffers.Get().(*[chunkSize]byte)
		if c.Size += int64(whole); whole > 0 {
			c.Size, skipped = c.Size+skipped, 0
		}
		held = copy(buf[:], text[whole:])
		next := Lines{First: c.First + bytes.Count(c.Text, []byte("\n"))}
		if c.Size > 0 {
			if each := each(c); each != nil {
				return each
			}
		} else {
			c.Free()
		}
		switch {
		case isEnd:
			return nil
		case err != nil:
			return err
		}
		c = next
	}
}
