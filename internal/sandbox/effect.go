package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost/fake"
)

// Effect is the change of the readers of a page from the day of a merge on that changed it: 0.3
// is 30 % more of them, on average, on each day and in each longer window. A page reacts to the
// first merge only.
type Effect struct{ Human, AI float64 }

// ParseEffect reads +30%, or human=+30%, or ai=-20%, or several with commas between.
func ParseEffect(text string) (e Effect, err error) {
	for part := range strings.SplitSeq(text, ",") {
		kind, share, named := strings.Cut(part, "=")
		if !named {
			kind, share = "", part
		}
		number, percent := strings.CutSuffix(strings.TrimSpace(share), "%")
		value, bad := strconv.ParseFloat(number, 64)
		if kind = strings.TrimSpace(kind); bad != nil || !percent || named && kind != "human" && kind != "ai" {
			return Effect{}, fmt.Errorf("%.60q: want a change in percent, such as +30%%, human=+30%% or ai=-20%%", text)
		}
		if kind != "ai" {
			e.Human = value / 100
		}
		if kind != "human" {
			e.AI = value / 100
		}
	}
	return e, e.check()
}

func (e Effect) check() error {
	for _, change := range []float64{e.Human, e.AI} {
		if !(change >= -1 && change <= 1) { // also not a number
			return fmt.Errorf("merge effect: want -100%% to +100%%, got %+g%%", change*100)
		}
	}
	return nil
}

// merge is a merged pull request and the pages that it changed.
type merge struct {
	project string
	decided time.Time      // when it happened
	date    analytics.Date // UTC day of its date, which may be earlier
	pages   []uint32
}

// reactions returns the dates from which on pages of a project have the effect, for the merges
// so far and the pages that changed before end.
func (s *Sandbox) reactions(project string, end analytics.Date) map[uint32]analytics.Date {
	if s.config.Agent.Pulls.Effect == (Effect{}) {
		return nil
	}
	s.mergesMu.Lock()
	for _, pr := range s.pulls.Pulls() {
		if _, known := s.merged[pr.Number]; known || pr.State() != fake.Merged {
			continue // a merged pull request never changes
		}
		var pages []uint32
		for _, f := range pr.Changes().Files {
			for _, name := range []string{f.Name, f.Former} {
				if page, ok := pageOfFile(name, s.pageNumbers()); ok {
					pages = append(pages, page)
				}
			}
		}
		e := pr.Last(fake.Merge)
		s.merged[pr.Number] = merge{pr.Project, e.At.AddDate(0, 0, e.DaysAgo), analytics.DateOf(e.At), pages}
	}
	merges := slices.SortedFunc(maps.Values(s.merged), func(a, b merge) int { return a.decided.Compare(b.decided) })
	s.mergesMu.Unlock()
	since := map[uint32]analytics.Date{}
	for _, m := range merges {
		if m.project != project {
			continue
		}
		for _, page := range m.pages {
			if _, reacted := since[page]; !reacted {
				since[page] = m.date
			}
		}
	}
	maps.DeleteFunc(since, func(_ uint32, from analytics.Date) bool { return from >= end })
	return since
}

// reactingTraffic is a traffic whose readers react to merges. Additional readers are twins: some
// readers of the page have one, who reads it whenever they do, and nothing else. If there are
// fewer, some stop reading it. Both are the same people every day, so that longer windows have
// the same effect.
type reactingTraffic struct {
	traffic
	change [2]float64 // by kind
	since  map[uint32]analytics.Date
	seed   [sha256.Size]byte
}

func (t reactingTraffic) visitors() int { return 2 * t.traffic.visitors() }

func (t reactingTraffic) day(d analytics.Date) []event {
	usual := t.traffic.day(d)
	day := make([]event, 0, len(usual)+len(usual)/16)
	for _, e := range usual {
		from, changed := t.since[e.page]
		change := t.change[e.who&1]
		if !changed || d < from || change == 0 {
			day = append(day, e)
			continue
		}
		luck := t.luck(e.page, e.who>>1)
		if luck >= -change {
			day = append(day, e)
		}
		if luck < change {
			e.who += uint32(t.traffic.visitors()) << 1
			day = append(day, e)
		}
	}
	return day
}

// luck is evenly distributed over the readers of a page, the same on every day.
func (t reactingTraffic) luck(page, visitor uint32) float64 {
	key := binary.BigEndian.AppendUint32(t.seed[:], page)
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(key, visitor))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}
