package codehost

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

var noon = time.Date(2026, 10, 14, 12, 0, 0, 0, time.UTC)

func local(t *testing.T, dir string) *Local {
	t.Helper()
	l, err := OpenLocal(dir, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func proposal(job, diff string, messages ...string) agent.Proposal {
	return agent.Proposal{
		Change: agent.Change{Branch: "docgauge/" + job, Base: "b000", Head: "h" + job, Messages: messages},
		Job:    job, Title: messages[0], Source: agent.Source{Repository: "docs", Ref: "main"}, Diff: diff,
	}
}

func propose(t *testing.T, h agent.Host, p agent.Proposal) string {
	t.Helper()
	link, err := h.Propose(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestLocalKeepsOnePullRequestForEachBranch(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "pulls")} {
		l := local(t, dir)
		var links []string
		for _, p := range []agent.Proposal{proposal("a", "1", "one"), proposal("b", "2", "two"), proposal("a", "3", "one", "more")} {
			links = append(links, propose(t, l, p))
		}
		if diff := cmp.Diff([]string{"/pr/1", "/pr/2", "/pr/1"}, links); diff != "" {
			t.Error(diff)
		}
		if dir != "" {
			l = local(t, dir)
		}
		got, _ := l.Pull("1")
		want := PullRequest{1, "docs", "main", "b000", "docgauge/a", "ha", "one", []string{"one", "more"}, "3", noon, noon}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if link := propose(t, l, proposal("c", "4", "three")); link != "/pr/3" {
			t.Errorf("next: %s", link)
		}
	}
}

func TestLocalFilesAreChecked(t *testing.T) {
	for text, want := range map[string]string{"{": "as JSON", `{"number":2}`: "number 2"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLocal(dir, time.Now); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "1.json") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A pull request that could not be written is not there.
func TestLocalFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pulls")
	l := local(t, dir)
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Propose(t.Context(), proposal("a", "1", "one")); err == nil {
		t.Error("no error")
	}
	if _, ok := l.Pull("1"); ok {
		t.Error("there all the same")
	}
}

const hostile = `diff --git a/<script>alert(1)</script>.md b/<script>alert(1)</script>.md
--- a/<script>alert(1)</script>.md
+++ b/<script>alert(1)</script>.md
@@ -1,3 +1,3 @@ </pre><script>
 </style></span>
--- "quoted" & <b>
+++ <script>alert('2')</script>
-<img src=x onerror=alert(3)>
\ No newline at end of file
+
diff --git a/x b/x
`

func page1(t *testing.T, l *Local, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	l.ServePage(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestPageIsEscaped(t *testing.T) {
	l := local(t, "")
	p := proposal("<script>b</script>", hostile, "<script>t</script>", "<i>second</i>")
	p.Source = agent.Source{Repository: "<script>r</script>", Ref: "<script>m</script>"}
	propose(t, l, p)
	w := page1(t, l, http.MethodGet, "/pr/1")
	body := w.Body.String()
	if w.Code != http.StatusOK || strings.Contains(body, "<script") || strings.Contains(body, "<img") || strings.Contains(body, "<i>") || strings.Count(body, "</style>") != 1 {
		t.Errorf("status %d: %s", w.Code, body)
	}
	for _, want := range []string{"&lt;script&gt;t&lt;/script&gt;", "&lt;img src=x onerror=alert(3)&gt;", "2 commits"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %s", policy)
	}
}

func TestDiffLines(t *testing.T) {
	var got []string
	for _, l := range diffLines(hostile) {
		got = append(got, l.Class)
	}
	want := []string{"file", "file", "file", "hunk", "plain", "del", "add", "del", "plain", "add", "file"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPagesThatAreNotThere(t *testing.T) {
	l := local(t, "")
	propose(t, l, proposal("a", "", "one"))
	for target, want := range map[string]int{"/pr/1": 200, "/pr/": 404, "/pr/0": 404, "/pr/2": 404, "/pr/01": 404, "/pr/-1": 404, "/pr/+1": 404, "/pr/1/": 404, "/pr/99999999999999999999": 404} {
		if got := page1(t, l, http.MethodGet, target); got.Code != want {
			t.Errorf("%s: %d, want %d", target, got.Code, want)
		}
	}
	if w := page1(t, l, http.MethodPost, "/pr/1"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", w.Code)
	}
}
