package warehouse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// The event log of the first project: one page disappears after its last day,
// another appears, one becomes popular and one is forgotten in the last week,
// whose Sunday has no visits; one is read on Thursdays only, one on a single day;
// and on one day the visits of a bot are counted that are later withdrawn. The
// other project differs.
var (
	firstDay  = analytics.NewDate(2026, 10, 1)
	lastDay   = analytics.NewDate(2026, 11, 1)
	lastWeek  = analytics.NewDate(2026, 10, 26)
	emptyDay  = lastDay
	launch    = analytics.NewDate(2026, 10, 7)
	betaEnds  = analytics.NewDate(2026, 10, 23)
	hooksCome = analytics.NewDate(2026, 10, 27)
	botDay    = analytics.NewDate(2026, 10, 25)
)

const botPage = "/docs/wp-login.php"

// projects differ only for a filter; the second is not a number.
var projects = []string{"docs", "0042"}

// popularity is the weight of a page on day.
func popularity(project string, day analytics.Date) map[string]float64 {
	pages := map[string]float64{
		"/docs": 10, "/docs/quickstart": 4, "/docs/api/authentication": 4, "/docs/api/errors": 3,
		"/docs/guides/faq": 6, "/docs/agents/mcp": 3,
	}
	other := project != projects[0]
	if day <= betaEnds || other {
		pages["/docs/beta/preview"] = 2
	}
	if day >= hooksCome || other {
		pages["/docs/guides/webhooks"] = 3
	}
	if day >= lastWeek {
		pages["/docs/quickstart"], pages["/docs/guides/faq"] = 8, 2
	}
	if day.Weekday() == time.Thursday {
		pages["/docs/changelog"] = 2
	}
	if day == launch {
		pages["/docs/launch"] = 5
	}
	return pages
}

type line struct {
	Time    time.Time `json:"time"`
	Visitor string    `json:"visitor"`
	Kind    string    `json:"kind"`
	Path    string    `json:"path"`
	Project string    `json:"project"`
	Agent   string    `json:"agent,omitempty"`
}

// eventLog is the event log, with or without the visits of a bot.
func eventLog(withBot bool) []byte {
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	r := rand.New(rand.NewPCG(2026, 10))
	for _, project := range projects {
		for day := firstDay; day <= lastDay; day++ {
			for _, l := range linesOf(project, day, r) {
				_ = w.Encode(l) // a buffer takes everything
			}
		}
	}
	if withBot {
		for i := range 9 {
			_ = w.Encode(line{botDay.Time(), fmt.Sprintf("bot%d", i), "ai", botPage, projects[0], ""})
		}
	}
	return out.Bytes()
}

func linesOf(project string, day analytics.Date, r *rand.Rand) (lines []line) {
	const visitors = 240
	if day == emptyDay {
		return nil
	}
	weights := popularity(project, day)
	for v := range visitors {
		for range visits(day, v, r) {
			l := line{day.Time().Add(12 * time.Hour), fmt.Sprintf("v%d", v), kind(v, r), draw(weights, r), project, ""}
			if l.Kind == "ai" {
				l.Agent = assistants[v/5%len(assistants)]
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// visits is the number of pages visitor v reads on day: few come often, most rarely.
func visits(day analytics.Date, v int, r *rand.Rand) int {
	often := 0.06 + 0.5/float64(1+v/8)
	if wd := day.Weekday(); wd == time.Saturday || wd == time.Sunday {
		often /= 2
	}
	if r.Float64() > often {
		return 0
	}
	return 1 + r.IntN(4)
}

// assistants are those that AI visitors use, by turns.
var assistants = []string{"Claude-User", "ChatGPT-User", "Claude-User", "Cursor", ""}

// kind is the kind of one visit: of five visitors three are human, one is AI, and
// one is both.
func kind(v int, r *rand.Rand) string {
	if v%5 == 3 || v%5 == 4 && r.IntN(2) == 0 {
		return "ai"
	}
	return "human"
}

// draw picks a page, in the order of the paths, so that it only depends on r.
func draw(weights map[string]float64, r *rand.Rand) string {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at := r.Float64() * sum
	paths := slices.Sorted(maps.Keys(weights))
	for _, path := range paths {
		if at -= weights[path]; at < 0 {
			return path
		}
	}
	return paths[len(paths)-1]
}

// distinct counts the visitors of the first project in w, by the final log.
func distinct(t *testing.T, w analytics.Window) int64 {
	t.Helper()
	who := map[string]bool{}
	for d := json.NewDecoder(bytes.NewReader(eventLog(false))); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if day := analytics.DateOf(l.Time); l.Project == projects[0] && day >= w.From && day < w.To {
			who[l.Visitor] = true
		}
	}
	return int64(len(who))
}
