package redirects_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/redirects"
)

// TestNginx: nginx reads the map that is written, with the lines that docs/redirects.md has, and redirects these paths
// alone, in all forms that a missed path stands for.
func TestNginx(t *testing.T) {
	root := t.TempDir()
	for _, page := range []string{"page", "other"} {
		if err := os.WriteFile(filepath.Join(root, page), []byte("here"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := ""
	const long = "/reference/configuration/environment.variables/all-of-them"
	for _, rules := range [][]redirects.Rule{{{From: "/old/~a-b_c.d", To: "/page"}},
		{{From: "/more", To: "/other"}, {From: long, To: "/page"}}, {{From: long, To: "/page"}}} {
		f, err := redirects.Parse("nginx", text)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ = f.Add(rules)
	}
	if strings.Count(text, "all-of-them") != 1 {
		t.Errorf("want the rule once:\n%s", text)
	}
	w := engines.RunNginx(t, root, nil, text, "if ($docgauge_redirect) { return 301 $docgauge_redirect; }")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]string{"/old/~a-b_c.d": "/page", "/more": "/other", "/page": "", "/old/~a-b_cXd": "",
		"/more/x": "", "/old": "", "/more/": "/other", "/more.html": "/other", "/more.md": "/other", "/more.html.md": "/other",
		"/more/index.mdx": "/other", "/more/index": "", long: "/page", long + ".html": "/page",
		strings.Replace(long, ".", "x", 1): "", "/en" + long: "", long + "/x": "", strings.ToUpper(long): "/page",
		"/more.txt": "", "/.md": "", "/": ""} {
		resp, err := client.Get("http://" + w.Addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		target := ""
		if location, err := resp.Location(); err == nil {
			target = location.Path
		}
		if target != want || (want != "") != (resp.StatusCode == http.StatusMovedPermanently) {
			t.Errorf("%s: %d to %q, want %q", path, resp.StatusCode, target, want)
		}
	}
}
