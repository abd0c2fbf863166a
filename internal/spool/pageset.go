package spool

import "maps"

const (
	// usualStride is the distance of pages as they are usually read.
	usualStride = 250
	// maxBit bounds what an absurd offset can make us allocate.
	maxBit = 1 << 24
)

// pageSet is a map from offset to PageInfo that takes a bit for a page like the
// first one: a window of a million pages has all but its last alike.
type pageSet struct {
	usual PageInfo
	bits  []uint64
	odd   map[int]PageInfo
	n     int
}

func (s *pageSet) bit(offset int) (word int, mask uint64, ok bool) {
	i := offset / usualStride
	return i / 64, 1 << (i % 64), offset >= 0 && offset%usualStride == 0 && i < maxBit
}

func (s *pageSet) has(offset int) bool {
	_, ok := s.get(offset)
	return ok
}

func (s *pageSet) get(offset int) (PageInfo, bool) {
	word, mask, ok := s.bit(offset)
	if ok && word < len(s.bits) && s.bits[word]&mask != 0 {
		return s.usual, true
	}
	p, odd := s.odd[offset]
	return p, odd
}

// put adds a page that is not there yet.
func (s *pageSet) put(offset int, p PageInfo) {
	if s.n == 0 {
		s.usual = p
	}
	s.n++
	word, mask, ok := s.bit(offset)
	if !ok || p != s.usual {
		if s.odd == nil {
			s.odd = map[int]PageInfo{}
		}
		s.odd[offset] = p
		return
	}
	for len(s.bits) <= word {
		s.bits = append(s.bits, 0)
	}
	s.bits[word] |= mask
}

func (s *pageSet) all() map[int]PageInfo {
	out := make(map[int]PageInfo, s.n)
	for word, bits := range s.bits {
		for b := range 64 {
			if bits&(1<<b) != 0 {
				out[(word*64+b)*usualStride] = s.usual
			}
		}
	}
	maps.Copy(out, s.odd)
	return out
}
