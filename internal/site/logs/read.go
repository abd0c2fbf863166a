package logs

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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

// array is the compression of a JSON array of objects: it is read as one object a line.
const array = "a JSON array"

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
	if len(head) > 3 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18" {
		return "zstd" // a frame to be skipped, as pzstd writes before each other one
	}
	// A client can write the beginning of a line of some logs, but no whole line: what follows is no JSON.
	rest, ok := bytes.CutPrefix(bytes.TrimPrefix(head, byteOrderMark), []byte("["))
	for rest = bytes.TrimLeft(rest, " \t\r\n"); ok && bytes.HasPrefix(rest, []byte("{")); {
		var object json.RawMessage
		d := json.NewDecoder(bytes.NewReader(rest))
		err := d.Decode(&object)
		if _, isText := errors.AsType[*json.SyntaxError](err); isText {
			return ""
		}
		if rest = bytes.TrimLeft(rest[d.InputOffset():], " \t\r,[]"); err != nil || len(rest) == 0 || rest[0] == '\n' {
			return array
		}
	}
	return ""
}

// byteOrderMark begins texts of Windows.
var byteOrderMark = []byte("\ufeff")

// Decompress returns what r holds, decompressed if it begins as gzip, zstd or bzip2 does, and of a JSON array each
// object on a line.
func Decompress(r io.Reader) (io.Reader, error) { return new(Decompressor).Open(r) }

// Decompressor decompresses logs one after the other in the same memory. It is for one goroutine.
type Decompressor struct {
	packed, text *bufio.Reader
	gzip         *gzip.Reader
	zstd         *zstd.Decoder
}

// Open returns what r holds, as Decompress does, until the next call.
func (d *Decompressor) Open(r io.Reader) (io.Reader, error) {
	kind, err := peek(&d.packed, r)
	if err != nil {
		return nil, err
	}
	var text io.Reader
	switch kind {
	case "":
		return d.packed, nil
	case array:
		return &objects{in: d.packed}, nil
	case "gzip":
		if d.gzip == nil {
			d.gzip = new(gzip.Reader)
		}
		if err = d.gzip.Reset(d.packed); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errCut
		}
		text = &members{d, d.gzip}
	case "zstd":
		if d.zstd == nil {
			d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1))
		}
		if err == nil {
			err = d.zstd.Reset(d.packed)
		}
		text = d.zstd
	case "bzip2":
		text = bzip2.NewReader(d.packed)
	default:
		err = fmt.Errorf("is compressed with %s: want plain text, gzip, zstd or bzip2", kind)
	}
	if err != nil {
		return nil, err
	}
	if kind, _ = peek(&d.text, decompressor{text}); kind == array {
		return &objects{in: d.text}, nil
	}
	return d.text, nil
}

// members reads the members of gzip one after the other. What follows them and is no member, as NULs or lines that
// were appended, is text: gzip's own program passes over it, but it may be lines.
type members struct {
	*Decompressor
	now io.Reader
}

func (m *members) Read(p []byte) (int, error) {
	m.gzip.Multistream(false)
	n, err := m.now.Read(p)
	if m.now == m.packed || !errors.Is(err, io.EOF) {
		return n, err
	}
	switch next, _ := m.packed.Peek(2); {
	case len(next) == 0:
		return n, err
	case compression(next) == "gzip" || string(next) == "\x1f":
		return n, m.gzip.Reset(m.packed)
	}
	m.now = m.packed
	return n, nil
}

const (
	// unpackBuffer and unpackWindow bound the memory of a body that is unpacked.
	unpackBuffer = 16 << 10
	unpackWindow = 8 << 20
)

// ErrEncoding is the error of a body whose Content-Encoding, or compression, is none that Unpack knows.
var ErrEncoding = errors.New("want gzip, zstd or identity")

// Unpack returns what the body of a request with a Content-Encoding holds. A body without one may be compressed too:
// some hosts do not say it. It takes less memory than Decompress, and reads r to its end. Close it.
func Unpack(r io.Reader, encoding string) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, unpackBuffer)
	switch encoding {
	case "", "identity":
		head, _ := b.Peek(5)
		if encoding = compression(head); encoding == "" || encoding == array {
			return io.NopCloser(b), nil
		}
	case "x-gzip":
		encoding = "gzip"
	}
	switch encoding {
	case "gzip":
		return gzip.NewReader(b)
	case "zstd":
		d, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(unpackWindow), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, ErrEncoding
}

// Objects returns a text with each object of a JSON array on a line, if it is one, and else the text.
func Objects(text io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(text, unpackBuffer)
	c, err := b.ReadByte()
	for err == nil && (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
		c, err = b.ReadByte()
	}
	if err == nil {
		err = b.UnreadByte()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	kind, err := kindOf(b)
	if kind == array {
		return &objects{in: b}, nil
	}
	return b, err
}

// peek lets b read r, and looks at the beginning.
func peek(b **bufio.Reader, r io.Reader) (kind string, err error) {
	if *b == nil {
		*b = bufio.NewReaderSize(r, 256<<10)
	}
	(*b).Reset(r)
	return kindOf(*b)
}

// kindOf returns the compression of what b reads. It waits for as few bytes as it can: b may read a stream.
func kindOf(b *bufio.Reader) (kind string, err error) {
	head, err := b.Peek(5)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if bytes.HasPrefix(bytes.TrimPrefix(head, byteOrderMark), []byte("[")) {
		if head, _ = b.Peek(arrayBegin); compression(head) == array {
			head, _ = b.Peek(min(b.Buffered(), unpackBuffer)) // the rest of a stream may come much later
		}
	}
	return compression(head), nil
}

// arrayBegin is within how many bytes a JSON array has the beginning of its first object.
const arrayBegin = 16

// objects reads the objects of JSON arrays, one after the other, as lines: without what is between them, and with
// spaces for the line ends in them. A line between them that belongs to no array stays as it is.
type objects struct {
	in                  *bufio.Reader
	depth               int
	isQuoted, isEscaped bool
	isEnded             bool // the line end after an object is yet to come
	isBegin, isText     bool // of a line outside of objects
}

func (o *objects) Read(p []byte) (n int, err error) {
	if o.isEnded && len(p) > 0 {
		o.isEnded = false
		return copy(p, "\n"), nil
	}
	for n == 0 && err == nil && len(p) > 0 {
		var text []byte
		if text, err = o.in.Peek(1); len(text) > 0 {
			text, _ = o.in.Peek(min(o.in.Buffered(), (len(p)+1)/2)) // an object's end is two bytes
			for _, c := range text {
				n += o.next(p[n:], c)
			}
			_, err = o.in.Discard(len(text))
		}
	}
	return n, err
}

// next writes what one byte becomes.
func (o *objects) next(p []byte, c byte) int {
	switch {
	case o.isText:
		o.isText, o.isBegin = c != '\n', c == '\n'
	case o.isEscaped:
		o.isEscaped = false
	case o.isQuoted && c == '\\':
		o.isEscaped = true
	case c == '"' && o.depth > 0:
		o.isQuoted = !o.isQuoted
	case o.isQuoted:
	case c == '{':
		o.depth++
	case o.depth == 0 && (!o.isBegin || strings.IndexByte(" \t\r\n,[]", c) >= 0):
		o.isBegin = o.isBegin || c == '\n'
		return 0
	case o.depth == 0:
		o.isText = true
	case c == '}':
		if o.depth--; o.depth == 0 {
			o.isBegin = false
			o.isEnded = len(p) == 1
			return copy(p, "}\n")
		}
	case c == '\n' || c == '\r':
		c = ' '
	}
	p[0] = c
	return 1
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
	// Fields is the line that names the columns of the first lines; empty if none does.
	Fields string

	after string // Fields of the lines after it
	buf   *[chunkSize]byte
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
	// Fields is the last #Fields line before it.
	Fields string
}

// maxFields bounds a #Fields line.
const maxFields = 8 << 10

// fieldsAfter returns the #Fields line that rules what is after a text; before is the one that rules its beginning.
func fieldsAfter(text []byte, before string) string {
	for at := 0; ; at++ {
		next := bytes.Index(text[at:], []byte(fieldsPrefix))
		if next < 0 {
			return before
		}
		if at += next; at == 0 || text[at-1] == '\n' {
			line, _, _ := bytes.Cut(text[at:], []byte("\n"))
			if line = bytes.TrimRight(line, "\r"); len(line) <= maxFields {
				before = string(line)
			}
		}
	}
}

// ReadLines calls each with the lines of r, in order. If r fails, each gets the whole lines before. NULs, as a crash
// leaves and a server that goes on writing where it was after its log was emptied, may be in the text before a line; as
// many as fill a chunk are not.
func ReadLines(r io.Reader, p Part, each func(Lines) error) error {
	c, buf, held := Lines{First: p.First, Fields: p.Fields}, buffers.Get().(*[chunkSize]byte), 0
	defer func() { buffers.Put(buf) }()
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
		} else if whole > 0 {
			whole = withoutParts(text[:whole])
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
		c.after = fieldsAfter(c.Text, c.Fields)
		next := Lines{First: c.First + bytes.Count(c.Text, []byte("\n")), Fields: c.after}
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
