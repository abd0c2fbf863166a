package agents

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var update = flag.Bool("update", false, "write crawlers.txt")

// readModule reads a JSON file of a package of npm.
func readModule(t *testing.T, module, name string, into any) {
	t.Helper()
	dir, err := engines.NodeModule(module)
	engines.Need(t, err)
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// listedCrawler is an entry of crawler-user-agents.
type listedCrawler struct {
	Pattern   string
	Instances []string
	Tags      []string
}

func readCrawlers(t *testing.T) (list []listedCrawler) {
	readModule(t, "crawler-user-agents", "crawler-user-agents.json", &list)
	return list
}

// readBrowsers returns the user agents of visitors of many sites, as two years have them.
func readBrowsers(t *testing.T) (all []string) {
	for _, module := range []string{"user-agents", "user-agents-2025"} {
		var list []struct{ UserAgent string }
		readModule(t, module, "dist/user-agents.json", &list)
		for _, one := range list {
			all = append(all, one.UserAgent)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestLists: of the public list of crawlers hardly any counts as a person, and of real browsers each does.
func TestLists(t *testing.T) {
	var crawlers, people int
	for _, c := range readCrawlers(t) {
		for _, userAgent := range c.Instances {
			crawlers++
			if Builtin().Match(userAgent) == nil {
				people++
				t.Logf("human: %s", userAgent)
			}
		}
	}
	if crawlers < 2000 || people*100 > crawlers {
		t.Errorf("%d of %d crawlers count as people", people, crawlers)
	}
	browsers := readBrowsers(t)
	for _, userAgent := range browsers {
		if a := Builtin().Match(userAgent); a != nil {
			t.Errorf("%s: %s", userAgent, a.Token)
		}
	}
	if len(browsers) < 1700 {
		t.Errorf("%d browsers", len(browsers))
	}
}

// notCrawlers are names on the public list of programs in whose windows people read, and parts of the user agents of
// browsers.
var notCrawlers = []string{"AP3A.240617.008", "Bluesky", "Code", "Code/1", "Fluid", "Grammarly", "MetaIAB Facebook",
	"Notion", "Operator", "Optimizer", "Silk", "Sonic", "Trae", "TSM-turingos-1253296984", "Tumblr", "Valve/Steam",
	"Viber", "YLT Chrome"}

// plainWord is a name that many texts have: it counts only at the beginning of a user agent, if it was seen there.
var plainWord = regexp.MustCompile(`^([A-Z]?[a-z]{1,8}|[A-Z]{2,9})$`)

// TestCrawlers: crawlers.txt has the tokens of the public list, of the version that the installer pins: the shortest
// that find its user agents which the table does not know, and no browser.
func TestCrawlers(t *testing.T) {
	var about struct{ Version string }
	readModule(t, "crawler-user-agents", "package.json", &about)
	var candidates []Agent
	for _, c := range readCrawlers(t) {
		class := Other
		switch {
		case slices.Contains(c.Tags, "http-library"), slices.Contains(c.Tags, "browser-automation"):
			class = Tool
		case slices.Contains(c.Tags, "search-engine"):
			class = Search
		}
		pattern := regexp.MustCompile(c.Pattern)
		for _, userAgent := range c.Instances {
			if at := pattern.FindStringIndex(userAgent); at != nil {
				token := wholeWords(userAgent, at[0], at[1])
				leading := c.Pattern[0] == '^' || plainWord.MatchString(token) && strings.HasPrefix(userAgent, token)
				candidates = append(candidates, Agent{Token: token, Class: class, Listed: true, leading: leading})
			}
		}
	}
	slices.SortFunc(candidates, func(a, b Agent) int {
		return cmp.Or(len(a.Token)-len(b.Token), strings.Compare(a.Token, b.Token), strings.Compare(string(a.Class),
			string(b.Class)))
	})
	browsers := readBrowsers(t)
	text := strings.ToLower(strings.Join(browsers, "\n"))
	table := newTable(Builtin().Agents(), nil)
	var lines []string
	for _, a := range candidates {
		head := firstWord(a.Token)
		if head == "" || len(head) > maxWord || len(a.Token) < 2 || table.named(a.Token) != nil ||
			slices.ContainsFunc(notCrawlers, func(name string) bool { return strings.EqualFold(name, a.Token) }) {
			continue
		}
		alone := newTable(nil, []Agent{a})
		if alone.named(a.Token) == nil || strings.Contains(text, strings.ToLower(a.Token)) &&
			slices.ContainsFunc(browsers, func(userAgent string) bool { return alone.named(userAgent) != nil }) {
			continue
		}
		table.add(&a)
		begin := ""
		if a.leading {
			begin = "^"
		}
		lines = append(lines, string(a.Class)+"\t"+begin+a.Token+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	want := fmt.Sprintf("# Class and name of crawlers, from crawler-user-agents %s (npm, MIT), without those of "+
		"agents.txt.\n# Do not edit: make crawlers writes it.\n", about.Version) + strings.Join(lines, "")
	if *update {
		if err := os.WriteFile("crawlers.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if crawlers != want {
		t.Error("crawlers.txt is not what the list gives: make crawlers")
	}
}

// named is Match without the programs that have no name.
func (t *Table) named(userAgent string) *Agent {
	if a := t.Match(userAgent); a != nil && a.Class != Unknown {
		return a
	}
	return nil
}

// wholeWords returns text[start:end] up to the borders of its words.
func wholeWords(text string, start, end int) string {
	for start > 0 && isWord(text[start-1]) && isWord(text[start]) {
		start--
	}
	for end < len(text) && isWord(text[end]) && isWord(text[end-1]) {
		end++
	}
	return strings.TrimFunc(text[start:end], func(r rune) bool { return r > '~' || !isWord(byte(r)) })
}
