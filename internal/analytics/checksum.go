package analytics

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Checksum tells whether two places hold the same rows, whatever their order. It
// is the sum, modulo 2^64, of SipHash-2-4 with the zero key over each row written
// as its columns with a zero byte between; counts are decimals, truths 1 or 0. A
// server can compute it too: in ClickHouse it is, of visitors,
//
//	sum(sipHash64(concat(path, '\0', toString(human), '\0', toString(ai), '\0', toString(total))))
//
// The sum of no rows is 0. It finds damage, it does not withstand an attack.
type Checksum uint64

// String returns 16 hexadecimal digits.
func (c Checksum) String() string { return fmt.Sprintf("%016x", uint64(c)) }

// Sum holds the number, the totals and the checksum of the rows of a window. The zero value is the sum of an empty
// window.
type Sum struct {
	Rows     int64
	Checksum Checksum
	// Largest holds the largest human, ai and total of any page: three maxima, which may belong to three pages.
	Largest Totals
	// Added holds the sums over all pages, at most [math.MaxInt64] each. They do not count
	// visitors, because a visitor is counted once on each page: see [Sum.Covers].
	Added Totals
	// Confirmed is the number of people on the site that showed evidence, where the report has agents.
	Confirmed int64
	// People is the sum, modulo 2^64, of the SipHash of each path times its people. Reports of the same window have the
	// same sum if they have the same people on each path: human visitors, or readers of agents with the audience human.
	People Checksum
	// Implausible counts the rows whose counts contradict each other (see
	// [Shape.Plausible]); Example is the first path of them.
	Implausible int64
	Example     string
}

// countTotals counts rows whose counts are [Totals].
func (s *Shape) countTotals(sum *Sum) func(Record) {
	largest, added := sum.Largest.Fields(), sum.Added.Fields()
	return func(r Record) {
		sum.Rows++
		for i := range largest {
			*largest[i] = max(*largest[i], r.Counts[i])
			*added[i] = addUpTo(*added[i], r.Counts[i])
		}
		sum.doubt(r, s.Plausible(Totals{Human: r.Counts[0], AI: r.Counts[1], Total: r.Counts[2]}))
	}
}

// doubt counts a row that is not plausible.
func (s *Sum) doubt(r Record, plausible bool) {
	if plausible {
		return
	}
	if s.Implausible++; s.Implausible == 1 || r.Path() < s.Example {
		s.Example = r.Path()
	}
}

func addUpTo(sum, n int64) int64 { return sum + min(max(n, 0), math.MaxInt64-sum) }

// Covers reports whether the pages can be all pages of a site with these totals. Every
// visitor visits a page, so no count of the site is larger than the sum over its pages; if
// one is, pages are missing, or the service counts approximately.
func (s Sum) Covers(site Totals) bool { return s.Added.Counts().AtLeast(site.Counts()) }

// LacksRows reports whether r claims visitors of the site but has no row, although rows were
// read: such a reading is not verified, and does not replace rows.
func (r Revision) LacksRows() bool { return r.Rows == 0 && r.Totals != Totals{} }

// Plausible reports whether t can be counts of one set of visitors:
// max(human, ai) <= total <= human + ai.
func (t Totals) Plausible() bool {
	return t.Human >= 0 && t.AI >= 0 && max(t.Human, t.AI) <= t.Total && t.Total-t.Human <= t.AI
}

// Plausible reports whether t can be the counts of a page or of the site in the report.
func (s *Shape) Plausible(t Totals) bool {
	return t.Plausible() && (!s.Additive || t.Total-t.Human == t.AI)
}

// AtLeast reports whether no count of c is less than the same count of part.
func (c Counts) AtLeast(part Counts) bool {
	for i := range c {
		if c[i] < part[i] {
			return false
		}
	}
	return true
}

// sipHash is SipHash-2-4 (Aumasson and Bernstein, 2012) with the zero key.
func sipHash(b []byte) uint64 {
	v0, v1, v2, v3 := uint64(0x736f6d6570736575), uint64(0x646f72616e646f6d), uint64(0x6c7967656e657261),
		uint64(0x7465646279746573)
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		m := binary.LittleEndian.Uint64(b)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 4 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

// sipRound is small enough to be inlined.
func sipRound(v0, v1, v2, v3 uint64) (_, _, _, _ uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32) + v3
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
