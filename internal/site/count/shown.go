package count

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// proof is how a client that calls itself a browser shows that it is one.
type proof uint8

// The proofs.
const (
	byAsset       proof = 1 << iota // it fetches a style sheet, script, font or image of the site
	byNotModified                   // it has a page already
	byFetchMode                     // it asks for a page with Sec-Fetch-Mode: navigate

	byAny = byAsset | byNotModified | byFetchMode
)

// seenBits is the size of seen: 256 KiB, so that it stays in the processor's cache.
const seenBits = 15

// seen remembers the clients whose evidence of a day is known, or that are no browsers, so that most lines of evidence
// cost little. It has hashes alone, and forgets a client for another one with the same slot: then the client's evidence
// is said once more.
type seen struct {
	seed  maphash.Seed
	slots [1 << seenBits]uint64
}

func newSeen() *seen { return &seen{seed: maphash.MakeSeed()} }

// add adds the client of a line, on a day and at its host or of the project of its log, and reports whether it is new.
func (s *seen) add(l *logs.Line, project int32, day int64, by proof) (isNew bool) {
	const odd = 0x9E3779B97F4A7C15
	h := maphash.Bytes(s.seed, l.UserAgent) ^ uint64(project)<<32 ^ uint64(day)<<8 ^ uint64(by)
	for i, part := range [...][]byte{l.Client, l.Peer, l.Forwarded, l.Host, l.Project, l.Reader} {
		if len(part) > 0 {
			h = (h ^ h>>32 + uint64(i)) * odd
			h ^= maphash.Bytes(s.seed, part)
		}
	}
	h = (h^h>>32)*odd | 1 // an empty slot is 0
	slot := &s.slots[h>>(64-seenBits)]
	isNew = *slot != h
	*slot = h
	return isNew
}

// showAsset records that the client of a line fetches what browsers fetch by themselves.
func (v *Viewer) showAsset(l *logs.Line) {
	v.tally.assets++
	if !v.isNew(l, byAsset) {
		return
	}
	if addr, a, why := v.clientOf(l); why == "" && a.agent == nil {
		v.show(l, addr, a, nil, byAsset)
	}
}

// isNew reports whether the evidence of a line may be unknown: of its day, or each kind on any day.
func (v *Viewer) isNew(l *logs.Line, by proof) bool {
	const day = 24 * 60 * 60
	if !v.byProof {
		return v.seen.add(l, v.Fixed, l.Time/day, byAny)
	}
	return v.seen.add(l, v.Fixed, 0, by)
}

// showPage records evidence in the view of a page by a browser.
func (v *Viewer) showPage(l *logs.Line, page *view, addr netip.Addr, a *matchedAgent) {
	if string(l.FetchMode) == "navigate" && v.isNew(l, byFetchMode) {
		v.show(l, addr, a, page, byFetchMode)
	}
	if l.Status == http.StatusNotModified && !v.proxied && v.isNew(l, byNotModified) {
		v.show(l, addr, a, page, byNotModified)
	}
}

// showBefore records the evidence in a line before the days that are counted.
func (v *Viewer) showBefore(l *logs.Line, out *view) {
	if len(l.Reader) > 0 || string(l.Method) != "GET" || !answered(l) {
		return
	}
	t, why := v.locate(l, out)
	if t == proofTarget {
		v.showAsset(l)
	}
	if why != "" {
		return
	}
	if addr, a, why := v.clientOf(l); why == "" && a.agent == nil {
		v.showPage(l, nil, addr, a)
	}
}

// show records the evidence of a client for all projects of the host. page is its view, if there is one.
func (v *Viewer) show(l *logs.Line, addr netip.Addr, a *matchedAgent, page *view, by proof) {
	_, network := networkOf(addr)
	v.shownIn = v.projectsOf(v.shownIn[:0], l)
	for _, project := range v.shownIn {
		out := view{Day: analytics.DateOf(time.Unix(l.Time, 0)), Project: project}
		if page != nil && page.Project == project {
			out = *page
		} else if v.reader(&out, network, a.digest[:]) != "" {
			continue
		}
		v.shown = append(v.shown, facts.Shown{Readers: out.Readers, Day: out.Day, Project: project})
		v.proofs = append(v.proofs, by)
	}
}

// projectsOf appends the numbers of the projects of a line's host.
func (v *Viewer) projectsOf(all []int32, l *logs.Line) []int32 {
	switch {
	case v.Fixed >= 0:
		return append(all, v.Fixed)
	case len(v.projects) == 0:
		return append(all, 0)
	case len(l.Project) > 0:
		if number, ok := v.numbers[string(l.Project)]; ok {
			all = append(all, number)
		}
		return all
	}
	for _, h := range v.hostsOf(l.Host) {
		if !slices.Contains(all, h.number) {
			all = append(all, h.number)
		}
	}
	return all
}
