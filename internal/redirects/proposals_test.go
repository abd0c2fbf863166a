package redirects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/view"
)

// log is the output of git log, newest commit first.
const log = `2026-11-03

R100	docs/guides/setup.mdx	docs/start/install.mdx
2026-11-02

D	docs/remade.md
D	docs/gone.md
D	docs/twice.md
R055	docs/rewritten.md	docs/start/first.md
R090	docs/swap-a.md	docs/swap-b.md
R090	docs/swap-b.md	docs/swap-a.md
2026-11-01

R080	website/old/setup.md	docs/guides/setup.mdx
R100	website/api/keys.md	docs/api/keys.md
R100	website/api/users.md	docs/api/users.md
R100	website/01-intro.md	docs/01-intro.md
R098	docs/v2/limits.md	docs/v3/limits.md
R100	docs/README.md	docs/index.md
R100	docs/temp.md	docs/gone.md
R100	docs/twice/index.md	docs/api/users.md
2026-10-01

R100	website/api/tokens.md	website/api/keys.md
R100	docs/2.old/1.numbered.md	docs/start/numbered.md
`

var files = []string{"docs/start/install.mdx", "docs/start/first.md", "docs/start/numbered.md", "docs/remade.md",
	"docs/api/keys.md", "docs/api/users.md", "docs/01-intro.md", "docs/v3/limits.md", "docs/v2/other.md",
	"docs/v1/limits.md", "docs/index.md", "docs/swap-a.md", "docs/swap-b.md",
	"docs/_part.md", "docs/logo.svg", "README.md"}

var pages = []string{"/", "/start/install", "/start/first", "/start/numbered", "/remade", "/api/keys",
	"/api/users", "/intro", "/v3/limits", "/v1/limits", "/swap-a", "/swap-b", "/guides/Rate_Limits",
	"/new/alpha", "/new/beta", "/new/gamma", "/new/delta", "/tutorials/webhooks", "/fr/neuf/delta", "/de/neuf/delta",
	"/fr/start/install", "/en/glossary", "/de/glossary", "/zh-cn/faq/errors", "/ja/faq/errors"}

func TestPropose(t *testing.T) {
	history, err := redirects.ReadHistory(strings.NewReader(log), files)
	if err != nil {
		t.Fatal(err)
	}
	var rules []redirects.Rule
	for _, name := range []string{"alpha", "beta", "gamma"} {
		rules = append(rules, redirects.Rule{From: "/legacy/" + name, To: "/new/" + name + "#top"},
			redirects.Rule{From: "/fr/vieux/" + name, To: "/fr/neuf/" + name},
			redirects.Rule{From: "/mixed/" + name, To: "/new/" + name})
	}
	rules = append(rules, redirects.Rule{From: "/legacy", To: "/new"})
	rules = append(rules, redirects.Rule{From: "/mixed/zeta", To: "/start/first"})
	for _, tc := range []struct{ missed, target, grade, reason string }{
		{"/guides/setup", "/start/install", "sure", "renamed 2026-11-03"},
		{"/old/setup", "/start/install", "sure", "website/old/setup.md is docs/start/install.mdx"}, // a chain, another root
		{"/old/setup/", "/start/install", "sure", ""},
		{"/old/setup.md", "/start/install", "sure", ""},
		{"/api/tokens", "/api/keys", "sure", ""},
		{"/old/numbered", "/start/numbered", "sure", ""},
		{"/2.old/1.numbered", "/start/numbered", "sure", ""},
		{"/rewritten", "/start/first", "likely", "55 % alike"},
		{"/v2/limits", "/v3/limits", "likely", "several versions"},
		{"/v4/limits", "/v3/limits", "likely", "but for the version"},
		{"/gone", "", "none", "deleted 2026-11-02"},
		{"/temp", "", "none", "deleted"},
		{"/twice", "", "none", "deleted 2026-11-02"}, // two files had the path, the other one before
		{"/remade", "", "none", "a page now"},
		{"/remade.md", "", "none", "a page now"},
		{"/swap-a", "", "none", "a page now"},
		{"/v2/other", "", "none", "a page now"}, // known from the repository alone
		{"/guides/rate-limits", "/guides/Rate_Limits", "sure", "spelled differently"},
		{"/guides/2-rate-limits", "/guides/Rate_Limits", "likely", "spelled differently"},
		{"/legacy/delta", "/new/delta", "sure", "3 redirects lead from /legacy/"},
		{"/mixed/delta", "", "none", ""}, // another redirect leads elsewhere
		{"/legacy/epsilon", "", "none", ""},
		{"/docs/webhooks", "/tutorials/webhooks", "likely", "only page with this name"},
		{"/tutorial/webhook", "/tutorials/webhooks", "likely", "words in common"},
		{"/fr/remade", "/remade", "likely", "but for the language"},
		{"/glossary", "/en/glossary", "likely", "but for the language"},
		{"/docs/v2/fr/limits", "", "none", ""},
		{"/v4/de/limits", "/v3/limits", "likely", "but for the language"},
		{"/fr/guides/setup", "/fr/start/install", "likely", "renamed 2026-11-03: docs/guides/setup.mdx"},
		{"/fr/rewritten", "/start/first", "likely", "55 % alike, in another language"},
		{"/pt-br/guides/setup", "/start/install", "likely", "in another language"},
		{"/pt_BR/legacy/delta", "/new/delta", "likely", "3 redirects lead from /legacy/"},
		{"/fr/vieux/delta", "/fr/neuf/delta", "sure", "3 redirects lead from /fr/vieux/"},
		{"/de/vieux/delta", "/de/neuf/delta", "likely", "3 redirects lead from /fr/vieux/"},
		{"/es/vieux/delta", "", "none", ""},
		{"/ja/help/errors", "/ja/faq/errors", "likely", "only page with this name"},
		{"/fr/gone", "", "none", ""},
		{"/fr/ruby", "", "none", ""},
		{"/fr/.env", "", "none", ""},
		{"/fr", "", "none", ""},
		{"/zebra/crossing", "", "none", "no page is like it"},
		{"/INTRO", "", "none", "cannot be the target"}, // where case is ignored it would be a loop
	} {
		got := redirects.Propose([]view.MissedPath{{Path: tc.missed}},
			redirects.Site{Pages: pages, History: history, Rules: rules})[0]
		if got.Target != tc.target || string(got.Grade) != tc.grade || !strings.Contains(got.Reason, tc.reason) {
			t.Errorf("%s: %s %q (%s), want %s %q (%s)", tc.missed, got.Grade, got.Target, got.Reason,
				tc.grade, tc.target, tc.reason)
		}
	}
}

// TestRootPattern: the top of the site is a folder, too, from which pages went to another one.
func TestRootPattern(t *testing.T) {
	site := redirects.Site{Pages: []string{"/docs/alpha", "/docs/beta", "/docs/gamma", "/docs/delta", "/docs/api/delta"}}
	for _, name := range []string{"alpha", "beta", "gamma"} {
		site.Rules = append(site.Rules, redirects.Rule{From: "/" + name, To: "/docs/" + name})
	}
	got := redirects.Propose([]view.MissedPath{{Path: "/delta"}}, site)[0]
	if got.Target != "/docs/delta" || got.Grade != redirects.Sure {
		t.Errorf("%+v", got)
	}
	site.Rules = append(site.Rules, redirects.Rule{From: "/epsilon", To: "/blog/epsilon"})
	if got := redirects.Propose([]view.MissedPath{{Path: "/delta"}}, site)[0]; got.Grade == redirects.Sure {
		t.Errorf("where a rule says otherwise: %+v", got)
	}
}

// TestStrangersPaths: scanners and inventive agents get no proposal, even where a page once had the path.
func TestStrangersPaths(t *testing.T) {
	for _, missed := range []string{"/.env", "/docs/.git/config", "/wp-login.php", "/wp-admin/install", "/setup.php",
		"/a/wp-content/x", "/backup.sql", "/cgi-bin/luci", "/vendor/phpunit/x", "/guides//setup", "/guides/../setup",
		"/guides/./setup",
		"guides/setup", "", "/a b", "/a\nb", "/a;b", "/a{b}", "/a$uri", "/a%20b", "/:splat", "/*",
		`/a"b`, "/a'b", "/a#b", "/a?b", "/é", "/a\\b"} {
		log := "2026-11-03\n\nR100\t" + "docs" + missed + ".md\tdocs/start.md\n"
		history, err := redirects.ReadHistory(strings.NewReader(log), []string{"docs/start.md"})
		if err != nil {
			t.Fatal(err)
		}
		got := redirects.Propose([]view.MissedPath{{Path: missed}}, redirects.Site{
			Pages: []string{"/start", "/setup", "/guides/setup"}, History: history})[0]
		if got.Grade != redirects.None || got.Target != "" {
			t.Errorf("%q: %+v, want none", missed, got)
		}
	}
}

// TestRoots: folders of versions and languages have paths of their own.
func TestRoots(t *testing.T) {
	var files, pages []string
	for folder, url := range map[string]string{"site/content/en": "", "site/content/de": "/de",
		"old/version-v5": "/docs/v5"} {
		for i := range 5 {
			files = append(files, fmt.Sprintf("%s/part/%d-page%d.md", folder, i, i))
			pages = append(pages, fmt.Sprintf("%s/part/page%d", url, i))
		}
	}
	log := "2026-11-03\n\nR100\told/version-v5/old.md\told/version-v5/part/3-page3.md\n" +
		"R100\tsite/content/de/part/alt.md\tsite/content/de/part/1-page1.md\n"
	history, err := redirects.ReadHistory(strings.NewReader(log), files)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range redirects.Propose([]view.MissedPath{{Path: "/docs/v5/old"}, {Path: "/de/part/alt"}},
		redirects.Site{Pages: pages, History: history}) {
		want := map[string]string{"/docs/v5/old": "/docs/v5/part/page3", "/de/part/alt": "/de/part/page1"}[got.Path]
		if got.Target != want || got.Grade != redirects.Sure {
			t.Errorf("%+v, want sure %s", got, want)
		}
	}
}

// BenchmarkPropose: 1,000 misses of a site of 25,000 pages with 100,000 former files, a fifth of them of one name.
func BenchmarkPropose(b *testing.B) {
	site := redirects.Site{History: redirects.History{Former: map[string]redirects.Former{}}}
	name := func(i int) string {
		if i%5 == 0 {
			return fmt.Sprintf("part%d/section%d/overview", i%97, i)
		}
		return fmt.Sprintf("part%d/section%d/page%d", i%97, i%997, i)
	}
	for i := range 25_000 {
		site.Pages = append(site.Pages, "/"+name(i))
		site.History.Files = append(site.History.Files, "content/"+name(i)+".md")
	}
	for i := range 100_000 {
		site.History.Former[fmt.Sprintf("content/old%d/%s.md", i%9, name(i))] = redirects.Former{
			File: site.History.Files[i%25_000], Alike: 100}
	}
	var misses []view.MissedPath
	for i := range 1000 {
		misses = append(misses, view.MissedPath{Path: fmt.Sprintf("/old%d/%s", i%9, name(i)+strings.Repeat("x", i%2))})
	}
	for b.Loop() {
		redirects.Propose(misses, site)
	}
}
