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

// Decompress returns what r holds, decompressed if it begins as gzip or zstd does.
func Decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 256<<10)
	head, err := b.Peek(4)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return b, nil
}

// Chunk is some whole lines of a log.
type Chunk struct {
	// First is the number of the first line, from 1.
	First int
	Text  []byte
	// TooLong is the number of lines before it that were longer than a chunk.
	TooLong int

	buf *[chunkSize]byte
}

var buffers = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Free lets the memory of the text be used again. Whoever keeps the text does not call it.
func (c Chunk) Free() { buffers.Put(c.buf) }

// Chunks calls each with all of r, in order.
func Chunks(r io.Reader, each func(Chunk) error) error {
	c, buf, held := Chunk{First: 1}, buffers.Get().(*[chunkSize]byte), 0
	isLong := false // of the line that goes on in buf
	for {
		n, err := io.ReadFull(r, buf[held:])
		text := buf[:held+n]
		atEnd := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !atEnd {
			return fmt.Errorf("after line %d: %w", c.First-1+bytes.Count(text, []byte("\n")), err)
		}
		if isLong {
			at := bytes.IndexByte(text, '\n')
			if at < 0 && !atEnd {
				held = 0
				continue
			}
			isLong, text = false, text[at+1:]
			if at < 0 {
				text = nil
			}
			c.First, c.TooLong = c.First+1, c.TooLong+1
		}
		whole := bytes.LastIndexByte(text, '\n') + 1
		switch {
		case atEnd:
			whole = len(text)
		case whole == 0:
			isLong, held = true, 0
			continue
		}
		c.Text, c.buf, buf = text[:whole], buf, buffers.Get().(*[chunkSize]byte)
		held = copy(buf[:], text[whole:])
		next := Chunk{First: c.First + bytes.Count(c.Text, []byte("\n"))}
		if err := each(c); err != nil || atEnd {
			return err
		}
		c = next
	}
}
