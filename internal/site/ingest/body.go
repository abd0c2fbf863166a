package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/docgauge/docgauge/internal/site/logs"
)

// The bounds of bodies.
const (
	maxPacked   = 16 << 20 // bytes, as it is sent
	maxUnpacked = 32 << 20
	maxLine     = 1 << 20
	// maxDepth is how deep values of a line may be in one another.
	maxDepth = 64
	// maxInFlight is the number of requests at once, and maxMemory what all of their bodies take.
	maxInFlight = 128
	maxMemory   = 64 << 20
)

// Errors of bodies.
var (
	errUnpacked = errors.New("has more than 32 MiB unpacked: send smaller batches")
	errLongLine = errors.New("has a line of more than 1 MiB")
	errDeep     = errors.New("has a line whose values are more than 64 deep in one another")
	errFull     = errors.New("bodies of other requests take all memory that there is for them")
)

// blockSize is how much memory a body takes at once.
const blockSize = 128 << 10

var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// Body is what a request has brought: whole lines, the objects of a JSON array among them.
type Body struct {
	// Source is the index of its source.
	Source int
	// Digest is the hash of the text.
	Digest [sha256.Size]byte

	blocks []*[blockSize]byte
	size   int
	memory *memory
}

// memory is what bodies take together.
type memory struct{ taken atomic.Int64 }

func (m *memory) take() bool {
	if m.taken.Add(blockSize) > maxMemory {
		m.taken.Add(-blockSize)
		return false
	}
	return true
}

// Reader reads the text.
func (b *Body) Reader() io.Reader {
	all, left := make([]io.Reader, 0, len(b.blocks)), b.size
	for _, block := range b.blocks {
		n := min(left, blockSize)
		all, left = append(all, bytes.NewReader(block[:n])), left-n
	}
	return io.MultiReader(all...)
}

// free gives the memory back.
func (b *Body) free() {
	for _, block := range b.blocks {
		blocks.Put(block)
		b.memory.taken.Add(-blockSize)
	}
	b.blocks = nil
}

// begin is the beginning of the text, without space around it.
func (b *Body) begin() []byte {
	if len(b.blocks) == 0 {
		return nil
	}
	return bytes.TrimSpace(b.blocks[0][:min(b.size, blockSize)])
}

// IsEmpty reports whether a body has no lines: a host says that it has none.
func (b *Body) IsEmpty() bool {
	return b.size <= blockSize && (len(b.begin()) == 0 || string(b.begin()) == "[]")
}

// isTest reports whether a body is the one with which Logpush tries a destination: {"content":"…"}.
func (b *Body) isTest() bool {
	const longest = 8 << 10
	var members map[string]json.RawMessage
	return b.size <= longest && json.Unmarshal(b.begin(), &members) == nil && len(members) == 1 &&
		members["content"] != nil
}

// read reads the text of a body as it is sent. What is refused has not taken more memory than the bounds allow.
func (b *Body) read(sent io.Reader, encoding string) error {
	unpacked, err := logs.Unpack(sent, encoding)
	if err != nil {
		return err
	}
	defer unpacked.Close() //nolint:errcheck // it was only read
	text, err := logs.Objects(&bounded{unpacked, maxUnpacked})
	if err != nil {
		return err
	}
	var lines lineCheck
	digest := sha256.New()
	for {
		at := b.size % blockSize
		if at == 0 && b.size == len(b.blocks)*blockSize {
			if !b.memory.take() {
				return errFull
			}
			b.blocks = append(b.blocks, blocks.Get().(*[blockSize]byte))
		}
		n, err := text.Read(b.blocks[len(b.blocks)-1][at:])
		part := b.blocks[len(b.blocks)-1][at : at+n]
		b.size += n
		digest.Write(part)
		if bad := lines.add(part); bad != nil {
			return bad
		}
		if errors.Is(err, io.EOF) {
			digest.Sum(b.Digest[:0])
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// bounded fails after some bytes.
type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errUnpacked
	}
	return n, err
}

// lineCheck checks the bounds of lines as they come.
type lineCheck struct {
	length, depth      int
	isObject, isQuoted bool
	isEscaped          bool
}

// special are the bytes of an object that matter.
var special = func() (is [256]bool) {
	for _, c := range []byte("\n\"\\{}[]") {
		is[c] = true
	}
	return is
}()

func (c *lineCheck) add(text []byte) error {
	for len(text) > 0 {
		if c.length == 0 {
			*c = lineCheck{isObject: text[0] == '{'}
		}
		end := bytes.IndexByte(text, '\n')
		line := text
		if end >= 0 {
			line = text[:end]
		}
		if c.length += len(line); c.length > maxLine {
			return errLongLine
		}
		if c.isObject && !c.object(line) {
			return errDeep
		}
		if end < 0 {
			return nil
		}
		c.length, text = 0, text[end+1:]
	}
	return nil
}

// object follows an object, and reports whether it is not too deep.
func (c *lineCheck) object(line []byte) bool {
	for i := 0; i < len(line); i++ {
		if c.isEscaped {
			c.isEscaped = false
			continue
		}
		for i < len(line) && !special[line[i]] {
			i++
		}
		if i == len(line) {
			break
		}
		switch b := line[i]; {
		case c.isQuoted:
			c.isQuoted, c.isEscaped = b != '"', b == '\\'
		case b == '"':
			c.isQuoted = true
		case b == '{' || b == '[':
			if c.depth++; c.depth > maxDepth {
				return false
			}
		case b == '}' || b == ']':
			c.depth--
		}
	}
	return true
}
