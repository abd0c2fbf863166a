package traffic

import (
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
)

// referrers bring people to the synthetic site: each the first view of so many sessions. Assistants bring more with
// coding, as they read more.
var referrers = []struct {
	url    string
	weight float64
	grows  bool
}{
	{"", 40, false}, {"https://www.google.com/", 30, false}, {"https://github.com/docgauge/sandbox", 8, false},
	{"https://www.bing.com/", 4, false}, {"https://duckduckgo.com/", 3, false},
	{"https://stackoverflow.com/q/1", 2, false}, {"https://www.reddit.com/", 1, false},
	{"https://news.ycombinator.com/", 1, false}, {"https://blog.example.com/", 3, false},
	{"https://chatgpt.com/", 4, true}, {"https://claude.ai/", 2, true}, {"https://www.perplexity.ai/", 1.2, true},
	{"https://gemini.google.com/", 0.8, true},
}

// sources are all that an event can have.
var sources = agents.Sources()

// sourceNumber is the source of events by a referrer.
func sourceNumber(referrer, target string) uint8 {
	return uint8(slices.Index(sources, agents.SourceOf([]byte(referrer), []byte(target), nil, nil)))
}

var (
	referrerNumbers = func() (all []uint8) {
		for _, r := range referrers {
			all = append(all, sourceNumber(r.url, ""))
		}
		return all
	}()
	siteNumber = uint8(slices.Index(sources, agents.Site))
	noNumber   = uint8(slices.Index(sources, agents.NoSource))
)

const (
	// warmShare of the people of a day show no evidence but by asking again for a page: their caches have all else.
	warmShare = 0.08
	// againShare of the further views of a session are pages that the browser has and asks for again.
	againShare = 0.15
)

// chance is evenly distributed over the values that it is made of, and always the same for the same ones.
func chance(parts ...uint64) float64 {
	x := uint64(0)
	for _, n := range parts { // the finalizer of SplitMix64
		x += n + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return float64(x>>11) / (1 << 53)
}

// isForged reports whether a visitor who is counted as human is a program under a browser's name.
func (w *Website) isForged(visitor uint32) bool { return chance(w.seed, 1, uint64(visitor)) < w.forged }

// complete says how the view of a synthetic visitor was asked for and answered.
func (s *Synthetic) complete(e *event, d analytics.Date, isFirst bool) {
	visitor := e.who >> 1
	luck := func(what uint64) float64 {
		return chance(s.seed, what, uint64(visitor), uint64(d), uint64(e.second)<<32|uint64(e.page))
	}
	if e.who&1 == ai {
		if luck(2) < s.markdownShare(e) {
			e.flags |= markdown
		}
		e.bytes = sizeOf(e)
		return
	}
	e.source, e.bytes = noNumber, sizeOf(e)
	switch {
	case s.isForged(visitor):
		return
	case isFirst:
		e.source = s.referrer(luck(3), d)
	default:
		e.source = siteNumber
	}
	if chance(s.seed, 4, uint64(visitor), uint64(d)) >= warmShare {
		e.flags |= evidence
	}
	if !isFirst && luck(5) < againShare {
		e.flags, e.bytes = e.flags|evidence, 0
	}
}

// referrer draws the source of a session.
func (s *Synthetic) referrer(luck float64, d analytics.Date) uint8 {
	weight := func(i int) float64 {
		if referrers[i].grows {
			return referrers[i].weight * s.course.coding(d)
		}
		return referrers[i].weight
	}
	sum := 0.0
	for i := range referrers {
		sum += weight(i)
	}
	luck *= sum
	for i := range referrers {
		if luck -= weight(i); luck < 0 {
			return referrerNumbers[i]
		}
	}
	return noNumber
}

// markdownShare is the share of Markdown in the views of an agent: all if it is known by that alone.
func (s *Synthetic) markdownShare(e *event) float64 {
	switch {
	case int(e.page) >= len(s.Pages): // a guess
		return 0
	case e.agent == 0:
		return 1
	}
	switch agentNames[e.agent-1].Class {
	case agents.Coding:
		return 0.6
	case agents.Answers:
		return 0.15
	}
	return 0
}

// sizeOf is the size of the answer to an event: of its page, the same for all visitors.
func sizeOf(e *event) int32 {
	const smallest, spread = 12 << 10, 90 << 10
	size := smallest + int32(spread*chance(uint64(e.page)))
	if e.flags&markdown != 0 {
		size /= 8
	}
	return size
}

// plain completes an event beyond the synthetic ones: of a browser without a referrer, or of an agent without a name.
func (e *event) plain() {
	e.source, e.flags = noNumber, evidence
	if e.who&1 == ai {
		e.source, e.flags = 0, markdown
	}
	e.bytes = sizeOf(e)
}
