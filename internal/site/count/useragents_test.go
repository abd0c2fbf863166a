package count

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/site/agents"
)

// TestUserAgentCounts: however many user agents clients invent, the frequent ones are counted exactly.
func TestUserAgentCounts(t *testing.T) {
	c := userAgentCounts{counts: map[string]*UserAgentReaders{}}
	bot := agents.Builtin().Match("FooBot")
	for i := range 5 * maxUserAgents {
		c.add(fmt.Sprint("invented ", i), bot, true)
		if i%5 == 0 {
			c.add("frequent\x1b[31m", nil, i == 0)
		}
		if len(c.counts) > 2*maxUserAgents {
			t.Fatalf("%d user agents are kept", len(c.counts))
		}
	}
	all := c.list()
	want := UserAgentReaders{UserAgent: "frequent\ufffd[31m", Agent: "browser", Class: "human", Audience: "human",
		Visitors: 1, Requests: maxUserAgents, key: "frequent\x1b[31m"}
	if *all[0] != want || !c.dropped {
		t.Errorf("%+v, dropped %t", *all[0], c.dropped)
	}
	long := []byte(strings.Repeat("x", 1<<20))
	for most, counted := range map[int]bool{0: false, 2 * maxUserAgent: true} {
		v := NewViewer(rulesOf(t, Settings{}), NewVocabulary(), 0, 0)
		v.byUserAgent = counted
		if n := len(v.agentOf(long).text); n > most {
			t.Errorf("%d bytes are kept, want at most %d", n, most)
		}
	}
}
