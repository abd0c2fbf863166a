package pulls

import (
	"slices"
	"testing"
)

const docsJSON = `{"name": "Acme", "navigation": {"tabs": [
	{"tab": "Guides", "groups": [{"group": "Start", "root": "guides/start/index", "pages": ["index", "guides/install",
		{"group": "More", "pages": ["guides/more/README", "guides/überblick"]}]}]},
	{"tab": "API", "openapi": "openapi.json", "pages": ["GET /users", "api/users"]}
]}}`

const mintJSON = `{"navigation": [{"group": "Start", "pages": ["introduction",
	{"group": "Deep", "pages": ["deep/one"]}]}]}`

func TestPagesOf(t *testing.T) {
	for _, tc := range []struct {
		name, root, navigation string
		changed, want          []string
	}{
		{"no root", "", "", []string{"guides/install.mdx", "index.md", "guides/index.mdx", "a/README.md"},
			[]string{"/", "/a", "/guides", "/guides/install"}},
		{"root", "/docs/", "", []string{"docs/guides/install.mdx", "docs/index.mdx", "src/readme.md", "docs.md",
			"docsx/a.md"}, []string{"/", "/guides/install"}},
		{"no pages", "", "", []string{"docs.json", "images/a.png", "style.css", "snippets/a.mdx", "x/_partials/b.mdx",
			".github/pull_request_template.md", "README.md", "CHANGELOG.md", "noextension"}, []string{}},
		{"twice", "", "", []string{"b.mdx", "a.mdx", "a.md"}, []string{"/a", "/b"}},
		{"dots and cases", "", "", []string{"release/v1.2.mdx", "A/B.MDX", "пример/ссылка.md",
			"guides/what's new.mdx"},
			[]string{"/A/B", "/guides/what's new", "/release/v1.2", "/пример/ссылка"}},
		{"forms of a page", "", "", []string{"a.html.md", "b/index.html.md", "c.html", "d/index.rst", "e/README.MD",
			"f/index.adoc", "v1.2.ipynb"}, []string{"/a", "/b", "/c", "/d", "/e", "/f", "/v1.2"}},
		{"navigation", "apps/docs", docsJSON, []string{"apps/docs/guides/install.mdx",
			"apps/docs/guides/start/index.mdx", "apps/docs/api/users.mdx"},
			[]string{"/api/users", "/guides/install", "/guides/start"}},
		{"navigation lists odd names", "", `{"navigation": {"pages": ["snippets/all", "README", "_x/a"]}}`,
			[]string{"snippets/all.mdx", "snippets/b.mdx", "README.md", "CHANGELOG.md", "_x/a.md", "guides/index.mdx"},
			[]string{"/", "/_x/a", "/guides", "/snippets/all"}},
		{"a page that is not in the navigation", "docs", mintJSON,
			[]string{"docs/hidden.mdx", "docs/deep/one.mdx", "other/hidden.mdx"}, []string{"/deep/one", "/hidden"}},
	} {
		got, err := pagesOf(tc.changed, tc.root, []byte(tc.navigation))
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
	for _, bad := range []string{"{", "[]", "null!", `{"navigation": `} { // not used, and reported
		if got, err := pagesOf([]string{"docs/a.mdx"}, "docs", []byte(bad)); err == nil ||
			!slices.Equal(got, []string{"/a"}) {
			t.Errorf("%s: %q, %v", bad, got, err)
		}
	}
}

func FuzzPagesOf(f *testing.F) {
	f.Add("docs/a/index.mdx", "docs", docsJSON)
	f.Add("../a.md", "..", mintJSON)
	f.Fuzz(func(t *testing.T, file, root, navigation string) {
		paths, _ := pagesOf([]string{file}, root, []byte(navigation))
		for _, p := range paths {
			if p == "" || p[0] != '/' {
				t.Errorf("%q in %q: %q", file, root, p)
			}
		}
	})
}
