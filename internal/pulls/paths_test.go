package pulls_test

import (
	"slices"
	"testing"

	"github.com/docgauge/docgauge/internal/pulls"
)

const docsJSON = `{"name": "Acme", "navigation": {"tabs": [
	{"tab": "Guides", "groups": [{"group": "Start", "root": "guides/start/index", "pages": ["index", "guides/install", {"group": "More", "pages": ["guides/more/README", "guides/überblick"]}]}]},
	{"tab": "API", "openapi": "openapi.json", "pages": ["GET /users", "api/users"]}
]}}`

const mintJSON = `{"navigation": [{"group": "Start", "pages": ["introduction", {"group": "Deep", "pages": ["deep/one"]}]}]}`

func TestPaths(t *testing.T) {
	for _, tc := range []struct {
		name    string
		mapping pulls.Mapping
		changed []string
		want    []string
	}{
		{"no root", pulls.Mapping{}, []string{"guides/install.mdx", "index.md", "guides/index.mdx", "a/README.md"}, []string{"/", "/a", "/guides", "/guides/install"}},
		{"root", pulls.Mapping{Root: "/docs/"}, []string{"docs/guides/install.mdx", "docs/index.mdx", "src/readme.md", "docs.md", "docsx/a.md"}, []string{"/", "/guides/install"}},
		{"no pages", pulls.Mapping{}, []string{"docs.json", "images/a.png", "style.css", "snippets/a.mdx", "x/_partials/b.mdx", ".github/pull_request_template.md", "README.md", "CHANGELOG.md", "noextension"}, []string{}},
		{"twice", pulls.Mapping{}, []string{"b.mdx", "a.mdx", "a.md"}, []string{"/a", "/b"}},
		{"dots and cases", pulls.Mapping{}, []string{"release/v1.2.mdx", "A/B.MDX", "пример/ссылка.md", "guides/what's new.mdx"}, []string{"/A/B", "/guides/what's new", "/release/v1.2", "/пример/ссылка"}},
		{"navigation", pulls.Mapping{Root: "apps/docs", Navigation: []byte(docsJSON)}, []string{"apps/docs/guides/install.mdx", "apps/docs/guides/start/index.mdx", "apps/docs/api/users.mdx"}, []string{"/api/users", "/guides/install", "/guides/start"}},
		{"navigation lists odd names", pulls.Mapping{Navigation: []byte(`{"navigation": {"pages": ["snippets/all", "README", "_x/a"]}}`)}, []string{"snippets/all.mdx", "snippets/b.mdx", "README.md", "CHANGELOG.md", "_x/a.md", "guides/index.mdx"}, []string{"/", "/_x/a", "/guides", "/snippets/all"}},
		{"a page that is not in the navigation", pulls.Mapping{Root: "docs", Navigation: []byte(mintJSON)}, []string{"docs/hidden.mdx", "docs/deep/one.mdx", "other/hidden.mdx"}, []string{"/deep/one", "/hidden"}},
		{"front matter", pulls.Mapping{Root: "docs", Pages: []string{"/b", "a/"}}, []string{"docs/c.mdx"}, []string{"/a", "/b"}},
		{"the start page by name", pulls.Mapping{Pages: []string{"/"}}, nil, []string{"/"}},
	} {
		got, err := tc.mapping.Paths(tc.changed)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
}

// TestPathsBadNavigation: what cannot be read is not used, and said.
func TestPathsBadNavigation(t *testing.T) {
	for _, bad := range []string{"{", "[]", "null!", `{"navigation": `} {
		got, err := pulls.Mapping{Root: "docs", Navigation: []byte(bad)}.Paths([]string{"docs/a.mdx"})
		if err == nil || !slices.Equal(got, []string{"/a"}) {
			t.Errorf("%s: %q, %v", bad, got, err)
		}
	}
}

func FuzzPaths(f *testing.F) {
	f.Add("docs/a/index.mdx", "docs", docsJSON)
	f.Add("../a.md", "..", mintJSON)
	f.Fuzz(func(t *testing.T, file, root, navigation string) {
		paths, _ := pulls.Mapping{Root: root, Navigation: []byte(navigation)}.Paths([]string{file})
		for _, p := range paths {
			if p == "" || p[0] != '/' {
				t.Errorf("%q in %q: %q", file, root, p)
			}
		}
	})
}
