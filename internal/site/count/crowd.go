package count

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"sync"

	"github.com/docgauge/docgauge/internal/site/logs"
)

// clientNetworks are networks of which most readers cannot be: a CDN's or private ones. The first stands for all others.
var clientNetworks = [...]string{"", "cloudflare", "fastly", "private"}

// networksByByte are clientNetworks by the first byte of their addresses.
var networksByByte = sync.OnceValue(func() *[256][]namedNetwork {
	var all [256][]namedNetwork
	for i, name := range clientNetworks {
		for _, p := range logs.Proxies(name) {
			first := int(p.Addr().AsSlice()[0])
			for at := range 1 << max(0, 8-p.Bits()) {
				all[first+at] = append(all[first+at], namedNetwork{p, i})
			}
		}
	}
	return &all
})

type namedNetwork struct {
	netip.Prefix
	name int // in clientNetworks
}

const (
	// crowdSlots is the number of slots that addresses share: more than a chunk has views, about.
	crowdSlots = 1 << 12
	// manyBrowsers is the number of different browsers that one address has only as a proxy's.
	manyBrowsers = 8
)

// crowd counts the browsers behind each address in one chunk, and keeps no address. It is for one goroutine.
type crowd struct {
	slots [crowdSlots]struct {
		browsers uint64 // a bit each, by a hash
		views    uint32
		network  uint8 // in clientNetworks
	}
	used []int
}

// add counts a view by a browser, of which hash is one byte of a hash.
func (c *crowd) add(addr netip.Addr, hash byte) {
	b := addr.As16()
	at := slotOf(b)
	slot := &c.slots[at]
	if slot.views++; slot.views == 1 {
		c.used = append(c.used, at)
		first := b[0]
		if addr.Is4() {
			first = b[12]
		}
		for _, n := range networksByByte()[first] {
			if n.Contains(addr) {
				slot.network = uint8(n.name)
			}
		}
	}
	slot.browsers |= 1 << (hash % 64)
}

// slotOf returns the slot of an address.
func slotOf(b [16]byte) int {
	h := (binary.BigEndian.Uint64(b[:])*31 + binary.BigEndian.Uint64(b[8:])) * 0x9E3779B97F4A7C15
	h = (h ^ h>>32) * 0xBF58476D1CE4E5B9
	return int(h >> 52)
}

// crowdViews counts views by browsers.
type crowdViews struct {
	all, shared int // shared: from addresses with many browsers
	networks    [len(clientNetworks)]int
}

func (v *crowdViews) add(other crowdViews) {
	v.all, v.shared = v.all+other.all, v.shared+other.shared
	for i, n := range other.networks {
		v.networks[i] += n
	}
}

// take returns what was counted, and begins again.
func (c *crowd) take() (sum crowdViews) {
	for _, at := range c.used {
		slot := &c.slots[at]
		sum.all += int(slot.views)
		sum.networks[slot.network] += int(slot.views)
		if bits.OnesCount64(slot.browsers) >= manyBrowsers {
			sum.shared += int(slot.views)
		}
		slot.browsers, slot.views, slot.network = 0, 0, 0
	}
	c.used = c.used[:0]
	return sum
}
