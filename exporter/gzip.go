package exporter

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// deflated is the beginning of a gzip stream: blocks that end on a byte and are
// not the last, so that more can be compressed apart and follow.
type deflated struct {
	blocks []byte
	sum    uint32 // of the uncompressed bytes
	size   int    // of the uncompressed bytes
}

// deflate compresses text.
func deflate(text []byte) deflated {
	var blocks bytes.Buffer
	compress(&blocks, text, (*flate.Writer).Flush)
	return deflated{blocks.Bytes(), crc32.ChecksumIEEE(text), len(text)}
}

// gzipHeader names no file, time or system.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// gzip returns the parts of one stream that holds d and then rest.
func (d deflated) gzip(rest []byte) [][]byte {
	var end bytes.Buffer
	compress(&end, rest, (*flate.Writer).Close)
	tail := binary.LittleEndian.AppendUint32(end.Bytes(), crc32.Update(d.sum, crc32.IEEETable, rest))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(d.size+len(rest)))
	return [][]byte{gzipHeader, d.blocks, tail}
}

// compressors are kept because each has most of a megabyte.
var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression) // fails for an unknown level only
	return w
}}

// compress writes text as blocks that refer to nothing before them, and lets end
// end the last one. Memory takes every write.
func compress(to *bytes.Buffer, text []byte, end func(*flate.Writer) error) {
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(to)
	_, _ = w.Write(text)
	_ = end(w)
}
