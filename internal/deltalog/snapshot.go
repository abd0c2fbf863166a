package deltalog

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
)

// tombstoneAge is the time that the log remembers removed files, for the VACUUM of other programs.
const tombstoneAge = 7 * 24 * time.Hour

// Snapshot is the table at one version.
type Snapshot struct {
	version    int64
	checkpoint int64 // the newest version known to have a checkpoint, -1 if none
	protocol   *protocol
	meta       *metaData
	txns       map[string]*txn
	files      map[string][]byte // by path, packed
	removed    map[string]gone   // by path
	packer     packer
}

// gone is a tombstone without its path.
type gone struct {
	escaped string // the path in the log, if it is not escaped our way
	deleted int64
	size    int64
}

func newSnapshot() *Snapshot {
	return &Snapshot{version: -1, checkpoint: -1,
		txns: map[string]*txn{}, files: map[string][]byte{}, removed: map[string]gone{}}
}

// Version is the version of the newest entry, -1 if the table does not exist.
func (s *Snapshot) Version() int64 { return s.version }

// ID is the id of the table, which a new table in the same place does not have.
func (s *Snapshot) ID() string {
	if s.meta == nil {
		return ""
	}
	return s.meta.ID
}

// Len is the number of files.
func (s *Snapshot) Len() int { return len(s.files) }

// Files yields the files of the table, in no order.
func (s *Snapshot) Files() iter.Seq[Add] {
	return func(yield func(Add) bool) {
		for path, packed := range s.files {
			if !yield(s.packer.unpack(packed).public(path)) {
				return
			}
		}
	}
}

// Paths yields the paths of Files, for less than what Files costs.
func (s *Snapshot) Paths() iter.Seq[string] { return maps.Keys(s.files) }

// File returns one file of the table.
func (s *Snapshot) File(path string) (Add, bool) {
	a, ok := s.get(path)
	if !ok {
		return Add{}, false
	}
	return a.public(path), true
}

// Tombstones yields the paths of files that were removed within the last 7 days, or somewhat longer
// ago, and when, in no order.
func (s *Snapshot) Tombstones() iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		for path, g := range s.removed {
			if !yield(path, time.UnixMilli(g.deleted)) {
				return
			}
		}
	}
}

func (a *add) public(path string) Add {
	return Add{Path: path, Size: a.Size, Modified: time.UnixMilli(a.ModificationTime), Stats: a.Stats, Tags: a.Tags}
}

func (s *Snapshot) get(path string) (*add, bool) {
	packed, ok := s.files[path]
	if !ok {
		return nil, false
	}
	a := s.packer.unpack(packed)
	if a.Path == "" {
		a.Path = escape(path)
	}
	return a, true
}

// apply advances the snapshot to version. Removals come first whatever the order in the entry is: a program that
// changes the description of a file may list them last.
func (s *Snapshot) apply(version int64, actions []action) {
	for _, a := range actions {
		if a.Remove != nil {
			s.set(a)
		}
	}
	for _, a := range actions {
		if a.Remove == nil {
			s.set(a)
		}
	}
	s.version = version
}

// set applies one action.
func (s *Snapshot) set(a action) {
	switch {
	case a.Remove != nil:
		path := unescape(a.Remove.Path)
		delete(s.files, path)
		s.removed[path] = gone{unusual(a.Remove.Path, path), a.Remove.DeletionTimestamp, a.Remove.Size}
	case a.Add != nil:
		path := unescape(a.Add.Path)
		delete(s.removed, path)
		s.files[path] = s.packer.pack(a.Add, unusual(a.Add.Path, path))
	case a.Txn != nil:
		s.txns[a.Txn.AppID] = a.Txn
	case a.Protocol != nil:
		s.protocol = a.Protocol
	case a.MetaData != nil:
		s.meta = a.MetaData
	}
}

// unusual returns escaped if it is not what escape makes of path.
func unusual(escaped, path string) string {
	if escaped == escape(path) {
		return ""
	}
	return escaped
}

// actions yields the actions that make up the snapshot, files and tombstones by path.
func (s *Snapshot) actions() iter.Seq[action] {
	return func(yield func(action) bool) {
		if !yield(action{Protocol: s.protocol}) || !yield(action{MetaData: s.meta}) {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(s.txns)) {
			if !yield(action{Txn: s.txns[id]}) {
				return
			}
		}
		for _, path := range slices.Sorted(maps.Keys(s.removed)) {
			g := s.removed[path]
			if g.escaped == "" {
				g.escaped = escape(path)
			}
			if !yield(action{Remove: &remove{
				Path: g.escaped, DeletionTimestamp: g.deleted, ExtendedFileMetadata: true, Size: g.size,
			}}) {
				return
			}
		}
		for _, path := range slices.Sorted(maps.Keys(s.files)) {
			a, _ := s.get(path)
			if !yield(action{Add: a}) {
				return
			}
		}
	}
}

// packer keeps the description of a file in a sixth of the space: the descriptions of two
// files differ little, so the first one is the dictionary of all others.
type packer struct {
	zip           *zstd.Encoder
	unzip         *zstd.Decoder
	plain, packed []byte
}

// pack packs a; escaped stands for its path, and is mostly empty.
func (p *packer) pack(a *add, escaped string) []byte {
	p.plain = binary.AppendVarint(binary.AppendVarint(p.plain[:0], a.Size), a.ModificationTime)
	texts := []string{escaped, a.Stats}
	for _, key := range slices.Sorted(maps.Keys(a.Tags)) {
		texts = append(texts, key, a.Tags[key])
	}
	for _, text := range texts {
		p.plain = append(binary.AppendUvarint(p.plain, uint64(len(text))), text...)
	}
	if p.zip == nil {
		p.open()
	}
	p.packed = p.zip.EncodeAll(p.plain, p.packed[:0])
	return bytes.Clone(p.packed)
}

func (p *packer) open() {
	dictionary := append([]byte(`{"numRecords":`), p.plain...) // never too short for one
	var err, again error
	p.zip, err = zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, dictionary), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstd.MinWindowSize<<4), zstd.WithEncoderCRC(false))
	p.unzip, again = zstd.NewReader(nil, zstd.WithDecoderDictRaw(0, dictionary),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil || again != nil {
		panic("deltalog: options of zstd") // they are constants
	}
}

// unpack is the inverse of pack; Path is the unescaped path.
func (p *packer) unpack(packed []byte) *add {
	plain, err := p.unzip.DecodeAll(packed, p.plain[:0])
	if err != nil {
		panic(err) // this process packed it
	}
	p.plain = plain
	var a add
	var n int
	a.Size, n = binary.Varint(plain)
	plain = plain[n:]
	a.ModificationTime, n = binary.Varint(plain)
	text := string(plain[n:])
	next := func() string {
		size, n := binary.Uvarint([]byte(text[:min(len(text), binary.MaxVarintLen64)]))
		end := n + int(size)
		one := text[n:end]
		text = text[end:]
		return one
	}
	a.Path, a.Stats = next(), next()
	for text != "" {
		if a.Tags == nil {
			a.Tags = map[string]string{}
		}
		key := next()
		a.Tags[key] = next()
	}
	return &a
}
