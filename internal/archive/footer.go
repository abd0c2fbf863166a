package archive

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"sync"
)

// Listing an archive reads the footer of each file, for which the Parquet library makes 500 objects. To list 1,096
// windows from 2,192 files took 0.23 s of CPU time, and takes 0.09 s with quickFooter, which reads the few parts that a
// [Footer] is made of and skips the others. It accepts only a schema that is byte for byte the schema of a file that the
// library and parseFooter have accepted before. Everything else is left to them, and they say what is wrong with a file.
// Damage to skipped parts, as to the rows, shows when the file is read.

// usualFooter is the number of bytes at the end of a file that hold the footers of almost all files.
const usualFooter = 4 << 10

// acceptedSchemas has, by the name of the table, the encoded schema that was accepted last.
var acceptedSchemas sync.Map

// encodedFooter returns the encoded footer of a file; nil if it is longer than usual, or damaged.
func encodedFooter(r *io.SectionReader) []byte {
	data := make([]byte, min(r.Size(), usualFooter))
	_, err := r.ReadAt(data, r.Size()-int64(len(data)))
	data, isParquet := bytes.CutSuffix(data, []byte("PAR1"))
	if err != nil || !isParquet || len(data) < 4 {
		return nil
	}
	data, length := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if uint64(length) > uint64(len(data)) {
		return nil
	}
	return data[len(data)-int(length):]
}

// quickFooter reads an encoded footer; false if that is left to the library.
func quickFooter(data []byte) (foot Footer, ok bool) {
	parts := splitFooter(data)
	foot, err := readMetadata(func(key string) *string {
		i := slices.IndexFunc(parts.pairs, func(pair [2]string) bool { return pair[0] == key })
		if i < 0 {
			return nil
		}
		return &parts.pairs[i][1]
	})
	if parts.schema == nil || err != nil {
		return foot, false
	}
	for _, table := range Tables(foot.Report) {
		if known, _ := acceptedSchemas.Load(table); known == string(parts.schema) {
			foot.Table = table
			return foot, checkRows(parts.rows, parts.groups, foot.rowsInFile()) == nil
		}
	}
	return foot, false
}

// footerParts are the parts of a footer that a [Footer] is made of.
type footerParts struct {
	schema []byte // encoded; nil if the footer is left to the library
	rows   int64
	groups []int64 // their rows
	pairs  [][2]string
}

// splitFooter reads the parts of an encoded footer.
func splitFooter(data []byte) (p footerParts) {
	c := compact{data: data}
	c.fields(func(id int, kind byte) {
		switch begin := c.at; {
		case id == 2:
			c.skip(kind)
			p.schema = data[begin:c.at]
		case id == 3 && kind == int64Kind:
			p.rows = c.integer()
		case id == 4 && kind == listKind:
			c.structs(func(id int, kind byte) {
				if id == 3 && kind == int64Kind {
					p.groups = append(p.groups, c.integer())
				} else {
					c.skip(kind)
				}
			})
		case id == 5 && kind == listKind:
			c.structs(func(id int, kind byte) {
				switch {
				case id == 1 && kind == binaryKind:
					p.pairs = append(p.pairs, [2]string{string(c.binary())})
				case id == 2 && kind == binaryKind && len(p.pairs) > 0:
					p.pairs[len(p.pairs)-1][1] = string(c.binary())
				default:
					c.unusual = true
				}
			})
		default:
			c.skip(kind)
			c.unusual = c.unusual || id > 7 // of an encrypted file
		}
	})
	if c.unusual {
		return footerParts{}
	}
	return p
}

// compact reads what Parquet files have of Thrift's compact protocol. If anything is unusual, it reads nothing more.
type compact struct {
	data    []byte
	at      int
	unusual bool
}

// The kinds of values.
const (
	trueKind, falseKind              = 1, 2
	int16Kind, int32Kind, int64Kind  = 4, 5, 6
	binaryKind, listKind, structKind = 8, 9, 12
)

// fields calls do for each field of a struct; do must read its value.
func (c *compact) fields(do func(id int, kind byte)) {
	for id := 0; !c.unusual; {
		head := c.take(1)
		if head == nil || head[0] == 0 {
			return
		}
		id += int(head[0] >> 4)
		c.unusual = head[0]>>4 == 0 // no difference to the former id
		do(id, head[0]&15)
	}
}

// structs calls do for each field of the structs of a list.
func (c *compact) structs(do func(id int, kind byte)) {
	n, kind := c.list()
	c.unusual = c.unusual || kind != structKind
	for ; n > 0 && !c.unusual; n-- {
		c.fields(do)
	}
}

// list returns the length of a list, and the kind of its values.
func (c *compact) list() (n uint64, kind byte) {
	head := c.take(1)
	if head == nil {
		return 0, 0
	}
	if n = uint64(head[0] >> 4); n == 15 {
		n = c.unsigned()
	}
	return n, head[0] & 15
}

func (c *compact) skip(kind byte) {
	switch kind {
	case trueKind, falseKind: // of a field, the kind is the value
	case int16Kind, int32Kind, int64Kind:
		c.unsigned()
	case binaryKind:
		c.binary()
	case listKind:
		n, kind := c.list()
		c.unusual = c.unusual || kind == trueKind || kind == falseKind
		for ; n > 0 && !c.unusual; n-- {
			c.skip(kind)
		}
	case structKind:
		c.fields(func(_ int, kind byte) { c.skip(kind) })
	default:
		c.unusual = true
	}
}

func (c *compact) binary() []byte { return c.take(c.unsigned()) }

func (c *compact) integer() int64 {
	v := c.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

func (c *compact) unsigned() uint64 {
	v, n := binary.Uvarint(c.data[c.at:])
	c.at += max(n, 0)
	c.unusual = c.unusual || n <= 0
	return v
}

// take returns n bytes; nil if there are fewer.
func (c *compact) take(n uint64) []byte {
	if n > uint64(len(c.data)-c.at) {
		c.unusual = true
	}
	if c.unusual {
		return nil
	}
	c.at += int(n)
	return c.data[c.at-int(n) : c.at]
}
