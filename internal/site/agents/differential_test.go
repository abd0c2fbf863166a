package agents

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// difference explains why a user agent is a person's here and automatic there, or the reverse. The numbers are
// those of the versions that the installer pins, for isbot and for crawler-user-agents.
type difference struct {
	automatic       bool // here
	when            func(userAgent string, a *Agent) bool
	isbot, crawlers int
	why             string
}

var differences = []difference{
	{false, contains(`Electron/`), 1, 3, "an editor's own window: a person looks at it, or an agent that does not " +
		"say so"},
	{false, contains(`^Dillo/|Instagram|Fluid/|TSM-turingos|MetaIAB|Miniature\.io|YLT Chrome`), 1, 6, "a browser"},
	{false, contains(`^(MyCurlApp|xcurl|Gotham)|Rubylike`), 4, 0, "a word of the test that only contains a token"},
	{false, contains(`^(Mozilla|Opera)/.*[a-z0-9]\.(com|org|co|de|io|fr|gy|ru|eu|edu|observer)\b`), 34, 34,
		"a host or an address without a scheme is no URL"},
	{false, contains(`^(Mozilla|Opera)/`), 59, 59, "the name of a monitor or scanner in a browser's user agent, which " +
		"is not in the table"},
	{false, contains(``), 252, 252, "a program that only says its name, which is not in the table: nothing is guessed"},
	{true, func(_ string, a *Agent) bool { return a != unknown }, 9, 39, "in the table, and not in theirs"},
	{true, func(string, *Agent) bool { return true }, 1, 18, "says that it is automatic"},
}

func contains(pattern string) func(string, *Agent) bool {
	re := regexp.MustCompile(pattern)
	return func(userAgent string, _ *Agent) bool { return re.MatchString(userAgent) }
}

// TestOtherLists compares the table with isbot and crawler-user-agents, over the user agents of the latter and
// those of our test.
func TestOtherLists(t *testing.T) {
	isbot, err := engines.NodeModule("isbot")
	engines.Need(t, err)
	crawlers, err := engines.NodeModule("crawler-user-agents")
	engines.Need(t, err)
	data, err := os.ReadFile(filepath.Join(crawlers, "crawler-user-agents.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Pattern   string
		Instances []string
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	var all []string
	var patterns []*regexp.Regexp
	for _, u := range userAgents(t) {
		all = append(all, u.text)
	}
	for _, c := range list {
		all, patterns = append(all, c.Instances...), append(patterns, regexp.MustCompile(c.Pattern))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	bots := askIsbot(t, isbot, all)
	got := make([]difference, len(differences))
	for i, text := range all {
		a := Builtin().Match(text)
		crawler := slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(text) })
		if bots[i] == (a != nil) && crawler == (a != nil) {
			continue
		}
		n := slices.IndexFunc(differences, func(d difference) bool { return d.automatic == (a != nil) && d.when(text, a) })
		if n < 0 {
			t.Fatalf("%q: ours %v, isbot %v, crawler-user-agents %v: nothing explains it", text, a, bots[i], crawler)
		}
		if bots[i] != (a != nil) {
			got[n].isbot++
		}
		if crawler != (a != nil) {
			got[n].crawlers++
		}
		if testing.Verbose() {
			t.Logf("%q: ours %v, isbot %v, crawler-user-agents %v: %s", text, a != nil, bots[i], crawler,
				differences[n].why)
		}
	}
	for i, d := range differences {
		if got[i].isbot != d.isbot || got[i].crawlers != d.crawlers {
			t.Errorf("%d differences from isbot and %d from crawler-user-agents, want %d and %d: %s", got[i].isbot,
				got[i].crawlers, d.isbot, d.crawlers, d.why)
		}
	}
	if len(all) < 2000 {
		t.Errorf("%d user agents", len(all))
	}
}

// askIsbot returns what isbot says of each user agent.
func askIsbot(t *testing.T, dir string, userAgents []string) (bots []bool) {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), "node", "-e", `
		const { isbot } = require(process.argv[1]), all = JSON.parse(require("fs").readFileSync(0, "utf8"));
		console.log(JSON.stringify(all.map(text => isbot(text))))`, dir)
	engines.Need(t, err)
	in, err := json.Marshal(userAgents)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &bots); err != nil || len(bots) != len(userAgents) {
		t.Fatalf("%d answers for %d user agents: %v", len(bots), len(userAgents), err)
	}
	return bots
}
