package count

import (
	"fmt"
	"net/netip"
	"slices"
)

// Few addresses with most of the views are not readers.
const (
	fewAddresses = 3
	fewestViews  = 1000
)

// busiest counts views by the slot of their address, and keeps no address. Sums of several do not depend on who has
// counted which view. It is for one goroutine.
type busiest [crowdSlots]int

func (b *busiest) add(addr netip.Addr) { b[slotOf(addr.As16())]++ }

// warnBusiest returns a warning if a few addresses have most of the views.
func warnBusiest(viewers []*Viewer, views int) string {
	var counts busiest
	for _, v := range viewers {
		for slot, n := range v.busiest {
			counts[slot] += n
		}
	}
	slices.Sort(counts[:])
	most, addresses := 0, 0
	for _, n := range counts[crowdSlots-fewAddresses:] {
		if most += n; n > 0 {
			addresses++
		}
	}
	if views < fewestViews || most <= views/2 {
		return ""
	}
	return fmt.Sprintf("%d addresses have about %d%% of the views: if they belong to a CDN or proxy, name its networks "+
		"in DOCGAUGE_SITE_LOG_PROXIES; if they are monitors, in DOCGAUGE_SITE_EXCLUDE", addresses, min(100, 100*most/views))
}
