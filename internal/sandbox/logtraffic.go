package sandbox

import (
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// logTraffic is the events of one project in the event log. A copy is an
// immutable view: what comes later is appended beyond its lengths, and days is
// replaced before it changes.
type logTraffic struct {
	days       map[analytics.Date][]event
	first, end analytics.Date
	pages      []string
	people     int

	pageNumber, visitorNumber map[string]uint32
}

func newLogTraffic() *logTraffic {
	return &logTraffic{
		days:          map[analytics.Date][]event{},
		pageNumber:    map[string]uint32{},
		visitorNumber: map[string]uint32{},
	}
}

func (t *logTraffic) bounds() (first, end analytics.Date) { return t.first, t.end }
func (t *logTraffic) day(d analytics.Date) []event        { return t.days[d] }
func (t *logTraffic) paths() []string                     { return t.pages }
func (t *logTraffic) visitors() int                       { return t.people }

// unshare leaves days to the copies that have it.
func (t *logTraffic) unshare() {
	t.days = maps.Clone(t.days)
}

func (t *logTraffic) add(e logLine, at time.Time, lateDays int) {
	page, isNew := numberOf(t.pageNumber, e.Path)
	if isNew {
		t.pages = append(t.pages, e.Path)
	}
	visitor, _ := numberOf(t.visitorNumber, e.Visitor)
	t.people = len(t.visitorNumber)
	who := visitor << 1
	if e.Kind == "ai" {
		who |= ai
	}
	d := analytics.DateOf(at)
	second := uint32(at.Unix() - d.Time().Unix())
	t.extend(d)
	t.days[d] = append(t.days[d], event{who, page, second, arrival(second, luck(e), lateDays)})
}

// numberOf returns the number of name, giving the next one to a new name.
func numberOf(numbers map[string]uint32, name string) (n uint32, isNew bool) {
	n, known := numbers[name]
	if !known {
		n = uint32(len(numbers))
		numbers[name] = n
	}
	return n, !known
}

func (t *logTraffic) extend(d analytics.Date) {
	if len(t.days) == 0 {
		t.first, t.end = d, d+1
	}
	t.first, t.end = min(t.first, d), max(t.end, d+1)
}

// luck spreads the events of a log evenly, the same way on every reading.
func luck(e logLine) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s", e.Time, e.Visitor, e.Kind, e.Path)
	return h.Sum32()
}
