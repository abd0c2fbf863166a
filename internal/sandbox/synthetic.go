package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// How synthetic visitors behave. With 640 pages a working day has about 1,500
// sessions and 7,700 events, so that most pages are visited on most days.
const (
	sessionsPerPage = 2.4
	leastSessions   = 24
	goOn            = 0.8 // probability that a session has one more page: 5 pages on average
	popularityFall  = 0.8 // page of rank r is visited in proportion to r^-popularityFall
	maxPause        = 120 // seconds between two pages of a session
	// newcomersPerSession is the number of visitors that come for the first time.
	newcomersPerSession = 0.3
)

var weekRhythm = [7]float64{time.Sunday: 0.45, 1.0, 1.08, 1.1, 1.05, 0.92, time.Saturday: 0.4}

// website is shared by all synthetic projects: the pages, how their traffic develops,
// and the cache of days.
type website struct {
	pages    []string
	course   course
	sessions int // of a usual day
	ring     int // visitor numbers in use
	lateDays int
	days     *cache[dayKey, []event]
}

type dayKey struct {
	project string
	date    analytics.Date
}

// maxCachedEvents limits the cache of days: 80 MiB.
const maxCachedEvents = 4 << 20

func newSite(c Config) *website {
	s := &website{
		pages: docPaths(c.Pages), lateDays: c.Faults.LateDays,
		sessions: max(leastSessions, int(sessionsPerPage*float64(c.Pages))),
		days:     newCache[dayKey](maxCachedEvents, func(e []event) int { return len(e) }),
	}
	s.course, s.ring = courseOf(c.Scenario, c.Pages)
	s.ring *= s.sessions
	return s
}

// synthetic is the made-up traffic of one project from first on. Each day is made independently
// of all others, when it is first requested.
type synthetic struct {
	*website
	seed    uint64
	project string
	first   analytics.Date
}

// endOfTime is later than any date the API can name.
const endOfTime = analytics.Date(1 << 22)

func (s *synthetic) bounds() (first, end analytics.Date) { return s.first, endOfTime }
func (s *synthetic) paths() []string                     { return s.pages }
func (s *synthetic) visitors() int                       { return s.ring }

func (s *synthetic) day(d analytics.Date) []event {
	return s.days.get(dayKey{s.project, d}, func() []event { return s.generate(d) })
}

// generate makes the events of a day.
func (s *synthetic) generate(d analytics.Date) []event {
	r := rand.New(rand.NewChaCha8(s.daySeed(d)))
	noise := 0.95 + 0.1*r.Float64()
	sessions := int(float64(s.sessions) * weekRhythm[d.Weekday()] * s.course.volume(d) * noise)
	shares := s.course.shares(d)
	events := make([]event, 0, sessions*6)
	for range sessions {
		events = s.session(events, d, shares, r)
	}
	return events
}

// daySeed makes days unrelated to each other, even of neighbouring seeds.
func (s *synthetic) daySeed(d analytics.Date) [32]byte {
	key := binary.BigEndian.AppendUint64(nil, s.seed)
	key = binary.BigEndian.AppendUint32(key, uint32(d))
	return sha256.Sum256(append(key, s.project...))
}

// session appends the page views of one visitor, one after the other.
func (s *synthetic) session(events []event, d analytics.Date, shares []float64, r *rand.Rand) []event {
	// Newcomers get rising numbers and come often; the longer ago a visitor's first day was,
	// the rarer the returns.
	u := r.Float64()
	age := int(u * u * u * s.course.pool(d) * float64(s.sessions))
	newcomer := int(s.course.newcomers(d) * float64(s.sessions))
	visitor := uint32(((newcomer-age)%s.ring + s.ring) % s.ring)
	share := s.course.aiShare(visitor, d)
	at := r.Uint32N(daySeconds)
	if share < 1 { // people read around noon, agents at any hour
		at = (at + r.Uint32N(daySeconds)) / 2
	}
	for {
		kind := uint32(human)
		if r.Float64() < share {
			kind = ai
		}
		page := min(uint32(sort.SearchFloat64s(shares, r.Float64())), uint32(len(s.pages)-1))
		e := event{who: visitor<<1 | kind, page: page, at: at, arrival: arrival(at, r.Uint32(), s.lateDays)}
		if kind == ai {
			e.agent = s.assistantOf(visitor, s.pages[page], d)
		}
		events = append(events, e)
		if r.Float64() >= goOn {
			return events
		}
		at = min(at+1+r.Uint32N(maxPause), daySeconds-1)
	}
}

// startPaths are the pages visited most. Some need escaping in JSON, in URLs or
// in Prometheus labels, as real documentation paths do.
var startPaths = []string{
	"/", "/quickstart", "/introduction", "/authentication", "/api-reference/introduction", "/changelog",
	"/guides/überblick", "/ja/クイックスタート", "/api-reference/users/{id}", "/guides/what's new",
	`/guides/"quoted" names`, "/guides/rate-limits & quotas", "/reference/100%25-coverage", "/guides/a<b>c",
	`/windows/c:\path`, "/пример/ссылка", "/guides/emoji-🚀", "/faq#top",
}

var (
	resources = []string{
		"users", "projects", "keys", "webhooks", "invoices", "teams", "roles", "sessions", "deployments", "domains",
		"events", "files", "messages", "jobs", "logs", "metrics", "tokens", "orders", "payments", "refunds",
	}
	actions = []string{"create", "get", "list", "update", "delete", "search"}
	topics  = []string{
		"installation", "configuration", "errors", "pagination", "versioning", "testing", "deployment", "monitoring",
		"security", "caching", "migrations", "streaming", "batching", "localization", "search", "theming",
		"analytics", "backups", "permissions", "troubleshooting",
	}
	platforms = []string{"go", "python", "node", "java", "ruby", "php", "rust", "dotnet", "kubernetes", "terraform"}
)

// docPaths returns n different page paths, the same ones on every call.
func docPaths(n int) []string {
	paths := append(make([]string, 0, n), startPaths[:min(n, len(startPaths))]...)
	add := func(format string, args ...any) {
		if len(paths) < n {
			paths = append(paths, fmt.Sprintf(format, args...))
		}
	}
	for _, topic := range topics {
		add("/guides/%s", topic)
		for _, platform := range platforms {
			add("/sdks/%s/%s", platform, topic)
		}
	}
	for _, resource := range resources {
		for _, action := range actions {
			add("/api-reference/%s/%s", resource, action)
		}
	}
	for i := len(paths); i < n; i++ {
		add("/reference/page-%06d", i)
	}
	return paths
}
