package count

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
)

const (
	// maxAddresses is the number of busiest addresses that are counted.
	maxAddresses = 64
	// sampling is the number of views of which one is counted.
	sampling = 8
	// Few addresses with most of the views are not readers.
	fewAddresses = 3
	fewestViews  = 1000
)

// busiest counts the addresses with most views, for one goroutine.
type busiest struct {
	views  map[netip.Addr]int
	sample *rand.PCG
}

func newBusiest() *busiest { return &busiest{views: map[netip.Addr]int{}, sample: rand.NewPCG(1, 1)} }

// add counts one in eight views of an address, as Misra and Gries do: an address with more than
// one in 64 of them is in the end in the table, with a count that is too small by at most that share.
func (b *busiest) add(addr netip.Addr) {
	if b.sample.Uint64()%sampling != 0 {
		return
	}
	if _, known := b.views[addr]; known || len(b.views) < maxAddresses {
		b.views[addr]++
		return
	}
	for a, n := range b.views {
		if b.views[a] = n - 1; n == 1 {
			delete(b.views, a)
		}
	}
}

// warnBusiest returns a warning if a few addresses have most of the views.
func warnBusiest(all []*busiest, views int) string {
	sum := map[netip.Addr]int{}
	for _, b := range all {
		for addr, n := range b.views {
			sum[addr] += n * sampling
		}
	}
	counts := slices.Sorted(maps.Values(sum))
	most := 0
	for _, n := range counts[max(0, len(counts)-fewAddresses):] {
		most += n
	}
	if views < fewestViews || most <= views/2 {
		return ""
	}
	return fmt.Sprintf("%d addresses have about %d%% of the views: if they belong to a CDN or proxy, name its networks "+
		"in DOCGAUGE_SITE_LOG_PROXIES; if they are monitors, in DOCGAUGE_SITE_EXCLUDE", min(fewAddresses, len(counts)),
		min(100, 100*most/views))
}
