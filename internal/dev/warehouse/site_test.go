package warehouse

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	sitecount "github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
	"github.com/docgauge/docgauge/internal/site/serve"
)

// siteView is a view in the log of a site, as the log says it.
type siteView struct {
	day    analytics.Date
	reader int
	path   string
	kind   string // human, ai, or empty
	agent  string
}

// siteDay is the first of the days whose facts the page exports.
var siteDay = analytics.NewDate(2026, 10, 1)

// siteLog is the log of three days: most readers are people, some come again and some also ask for
// Markdown, so that they are both.
func siteLog() (views []siteView, log string) {
	const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	agents := map[int]string{7: "ChatGPT-User", 8: "Claude-User", 9: "Googlebot"}
	r := rand.New(rand.NewPCG(30, 1))
	var lines strings.Builder
	for day := siteDay; day < siteDay+3; day++ {
		for range 400 {
			v := siteView{day: day, reader: int(r.Float64() * r.Float64() * 200), kind: "human"}
			v.path = []string{"/docs/quickstart", "/docs/install", "/docs/api", "/docs/faq"}[int(r.Float64()*r.Float64()*4)]
			v.agent = agents[v.reader%10]
			userAgent, target := cmp.Or(v.agent, browser), v.path
			switch {
			case v.agent == "Googlebot":
				v.kind = ""
			case v.agent != "":
				v.kind = "ai"
			case v.reader%10 == 6 && r.IntN(2) == 0:
				v.kind, target = "ai", v.path+".md"
			}
			views = append(views, v)
			fmt.Fprintf(&lines, "192.0.2.%d - - [%s:12:00:00 +0000] \"GET %s HTTP/1.1\" 200 100 \"-\" \"%s\"\n",
				v.reader, day.Time().Format("02/Jan/2006"), target, userAgent)
		}
	}
	return views, lines.String()
}

// exportFacts exports the facts of a site to dir as the page says. The page and the log have the same numbers.
func exportFacts(t *testing.T, dir string) {
	t.Helper()
	views, log := siteLog()
	collect(t, dir, log)
	program := engines.Docgauge(t)
	path := t.TempDir()
	if err := os.Symlink(program, filepath.Join(path, "docgauge")); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks(t) {
		if b.has("facts") {
			cmd := exec.Command("sh", "-ec", b.body)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "DOCGAUGE_SITE_DIR="+filepath.Join(dir, "site"))
			shell(t, cmd)
		}
	}
	count := exec.Command(program, "site", "count", "--json", "access.log")
	count.Dir = dir
	var report struct{ Totals analytics.Totals }
	if err := json.Unmarshal([]byte(shell(t, count)), &report); err != nil {
		t.Fatal(err)
	}
	want, results := answersOf(views), shown(t)
	n := report.Totals
	want["facts-window"] = [][]string{strings.Fields(fmt.Sprint(n.Human, n.AI, n.Total))}
	for name, want := range want {
		if diff := gocmp.Diff(want, results[name].Rows); diff != "" {
			t.Errorf("%s, the log and site count (-) and the page (+):\n%s", name, diff)
		}
	}
}

// collect keeps a log as site serve does, in dir/site.
func collect(t *testing.T, dir, log string) {
	t.Helper()
	path := filepath.Join(dir, "access.log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return (siteDay + 4).Time() }
	rules, err := sitecount.ParseRules(sitecount.Settings{LogFormat: "auto"}, now)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := facts.Open(filepath.Join(dir, "site"))
	if err != nil {
		t.Fatal(err)
	}
	c := serve.NewCollector(rules, []logs.Source{{Where: path}}, kept, serve.CollectOptions{Now: now,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Every: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	for caughtUp := false; !caughtUp; {
		_, caughtUp = c.Sources()
		time.Sleep(time.Millisecond) // it says nothing when it has
	}
	stop()
	if err := cmp.Or(<-ended, kept.Close()); err != nil {
		t.Fatal(err)
	}
}

// answersOf answers the questions of the page from the log itself.
func answersOf(views []siteView) map[string][][]string {
	days, also := map[int]map[analytics.Date]bool{}, map[string]map[int]bool{}
	agents, requests := map[string]map[int]bool{}, map[string]int{}
	started := map[int]bool{}
	put := func(in map[string]map[int]bool, key string, reader int) {
		if in[key] == nil {
			in[key] = map[int]bool{}
		}
		in[key][reader] = true
	}
	for _, v := range views {
		if v.kind == "human" && v.path == "/docs/quickstart" {
			started[v.reader] = true
		}
	}
	for _, v := range views {
		if v.kind != "" {
			if days[v.reader] == nil {
				days[v.reader] = map[analytics.Date]bool{}
			}
			days[v.reader][v.day] = true
		}
		if v.kind == "human" && v.path != "/docs/quickstart" && started[v.reader] {
			put(also, v.path, v.reader)
		}
		if v.agent != "" {
			put(agents, v.agent, v.reader)
			requests[v.agent]++
		}
	}
	often := map[int]int{}
	for _, d := range days {
		often[len(d)]++
	}
	out := map[string][][]string{}
	for n := 1; n <= len(often); n++ {
		out["facts-days"] = append(out["facts-days"], []string{strconv.Itoa(n), strconv.Itoa(often[n])})
	}
	for _, path := range byReaders(also) {
		out["facts-also"] = append(out["facts-also"], []string{path, strconv.Itoa(len(also[path]))})
	}
	for _, agent := range byReaders(agents) {
		out["facts-agents"] = append(out["facts-agents"], []string{agent, strconv.Itoa(len(agents[agent])),
			strconv.Itoa(requests[agent])})
	}
	return out
}

// byReaders returns the keys, those with the most readers first.
func byReaders(in map[string]map[int]bool) (keys []string) {
	for key := range in {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(in[b]), len(in[a])), strings.Compare(a, b))
	})
	return keys
}
