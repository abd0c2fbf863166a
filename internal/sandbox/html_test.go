package sandbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/runner"
)

const hostile = `diff --git a/<script>alert(1)</script>.md b/<script>alert(1)</script>.md
index 0123456789abcdef0123456789abcdef01234567..89abcdef0123456789abcdef0123456789abcdef 100644
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
old mode 100644
new mode 100755
diff --git "a/na\303\257ve \"name\".md" "b/na\303\257ve \"name\".md"
new file mode 100644
index 0000000..89abcde
--- /dev/null
+++ "b/na\303\257ve \"name\".md"
@@ -0,0 +1 @@
+one
diff --git a/old.md b/docs/new.md
similarity index 100%
rename from old.md
rename to docs/new.md
diff --git a/gone with space.md b/gone with space.md
deleted file mode 100644
index 89abcde..0000000
--- a/gone with space.md	
+++ /dev/null
@@ -1,2 +0,0 @@
-diff --git a/y b/y
-two
diff --git a/p.png b/p.png
index 1..2 100644
Binary files a/p.png and b/p.png differ
\ The diff is longer than what is shown.
`

func pull(number int) fake.Pull {
	return fake.Pull{
		Number: number, Repository: "/home/somebody/docs", Base: "main", Branch: "docgauge/job_1",
		BaseCommit: strings.Repeat("b", 40), Head: strings.Repeat("a", 40), Title: "<script>t</script> " +
			strings.Repeat("long", 20),
		Messages: []string{"<script>t</script>", "<i>second</i>"}, Diff: hostile,
		OpenedAt: noon.Add(-time.Hour), UpdatedAt: noon,
	}
}

// after is a pull request to which something was done, an hour ago.
func after(number int, actions ...fake.Action) fake.Pull {
	pr := pull(number)
	for _, a := range actions {
		pr.History = append(pr.History, fake.Event{At: noon.Add(-time.Hour), Action: a})
	}
	return pr
}

func fullIndex() indexData {
	var jobs []runner.Job
	var pulls []fake.Pull
	link := "/pr/1"
	for i := range shownItems + 3 {
		pulls = append(pulls, pull(i+1))
		jobs = append(jobs, runner.Job{
			ID: fmt.Sprint("job_", i+1), Status: runner.Completed, PRLink: &link,
			CreatedAt: noon.Add(-time.Duration(100-i) * time.Hour),
			Prompts:   []string{"<script>p</script> " + strings.Repeat("w", 90)},
		})
	}
	pulls[12] = after(13, fake.PassChecks, fake.Approve)
	pulls[11] = after(12, fake.FailChecks, fake.ConvertToDraft)
	pulls[10] = after(11, fake.Approve, fake.Merge)
	pulls[9] = after(10, fake.RequestChanges, fake.Close)
	jobs[11].Status, jobs[12].Status, jobs[12].PRLink = runner.Failed, runner.Active, nil
	x := indexData{
		Traffic: "Its visitors are made up.",
		Exports: []string{
			"export DOCGAUGE_BASE_URL=http://127.0.0.1:8787", "export DOCGAUGE_PROJECTS=" +
				strings.Repeat("prj_long,", 30),
		},
		KeyNote: "The key is elsewhere.",
		Uses: []usage{
			{What: "Visitor analytics", Requests: 128, Limit: 90, Left: 41},
			{What: "Agent jobs of <b>" + strings.Repeat("x", 100), Requests: 7},
		},
		Prompts: true,
	}
	x.Jobs, x.MoreJobs = newest(jobs)
	x.Pulls, x.MorePulls = newest(pulls)
	return x
}

// made are the pages by name, full and empty.
func made(t *testing.T) map[string]string {
	t.Helper()
	nothing := fake.Pull{Number: 8, Title: "nothing", Messages: []string{"one"},
		OpenedAt: noon, UpdatedAt: noon}
	hidden := fullIndex()
	hidden.Prompts = false
	pages := map[string]string{}
	for name, data := range map[string]any{
		"index": fullIndex(), "index-empty": indexData{Exports: []string{"x"}}, "index-hidden": hidden,
		"pulls": fullIndex(), "pulls-empty": indexData{}, "pull": pull(7), "pull-empty": nothing,
		"pull-open":   after(9, fake.PassChecks, fake.ConvertToDraft, fake.Ready, fake.Approve),
		"pull-merged": after(10, fake.PassChecks, fake.Approve, fake.Merge),
	} {
		template, _, _ := strings.Cut(name, "-")
		text, err := render(template, "", data, noon)
		check(t, err)
		pages[name] = string(text)
	}
	return pages
}

// TestEscaped: text from prompts, repositories and diffs stays text, and neither
// places of this machine nor commit hashes are shown.
func TestEscaped(t *testing.T) {
	for name, page := range made(t) {
		for _, bad := range []string{
			"<script", "<img", "<i>", "<b>", "/home/somebody", strings.Repeat("a", 40),
			strings.Repeat("b", 40), "0123456789abcdef",
		} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %s", name, bad)
			}
		}
		if n := strings.Count(page, "</style>"); n != 1 {
			t.Errorf("%s has %d ends of a style", name, n)
		}
	}
	w := httptest.NewRecorder()
	writePage(w, []byte(made(t)["pull"]))
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "style-src 'sha256-") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("policy %s", policy)
	}
}

func TestPagesSayWhatIsThere(t *testing.T) {
	pages := made(t)
	engines.Wants(t, engines.VisibleText(pages["index"]),
		"Visitor analytics 128 41 of 90", "7 no limit", "failed", "3 older jobs are not shown", "3 older pull requests",
		"The key is elsewhere.",
		"<script>p</script>", "job_13")
	if strings.Contains(pages["index"], "job_3<") {
		t.Error("the oldest jobs are shown")
	}
	engines.Wants(t, engines.VisibleText(pages["index-empty"]), "No job has been created yet.",
		"No job has opened a pull request here yet.")
	engines.Wants(t, engines.VisibleText(pages["pulls"]), "#13", "+3 −4 in 6 files", "1 h ago")
	engines.Wants(t, engines.VisibleText(pages["pull"]),
		"2 commits from docgauge/job_1 into main of docs", "14 Oct 2026, 11:00 UTC (1 h ago)", "just now",
		"<script>alert(1)</script>.md +2 −2",
		"x mode changed", `naïve "name".md new +1 −0`, "docs/new.md renamed from old.md",
		"gone with space.md deleted +0 −2", "p.png binary",
		"-<img src=x onerror=alert(3)>", "The diff is longer than what is shown.")
	engines.Wants(t, engines.VisibleText(pages["pull-empty"]), "1 commit", "Nothing was changed.")
	engines.Wants(t, engines.VisibleText(pages["pulls"]),
		"open , approved, checks passed", "draft , checks failed", "merged , approved", "closed , changes requested")
	engines.Wants(t, engines.VisibleText(pages["pull-open"]),
		"Request changes Fail checks Convert to draft Merge Close", "History Checks passed 14 Oct 2026, 11:00 UTC",
		"Ready for review 14 Oct")
	engines.Wants(t, pages["pull-open"], `<form method="post" action="/sandbox/docs/pull/9"`,
		`name="action" value="merge" class="primary"`)
	if strings.Contains(pages["pull-merged"], "<form") || strings.Contains(pages["pull-empty"], "History") {
		t.Error("there is a form or a history that says nothing")
	}
	for _, name := range []string{"pull", "pulls"} {
		if !strings.Contains(pages[name], `href="/"`) || !strings.Contains(pages[name], `href="/pr/"`) {
			t.Errorf("%s has no way back", name)
		}
	}
	if strings.Contains(engines.VisibleText(pages["index-hidden"]), "<script>p") {
		t.Error("prompts are shown")
	}
}

func TestDiffLines(t *testing.T) {
	var got []string
	for _, l := range (fake.Pull{Diff: hostile}).Changes().Files[0].Lines {
		got = append(got, l.Class)
	}
	want := []string{"hunk", "plain", "del", "add", "del", "plain", "add"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	stray := fake.Pull{Diff: "stray\n@@ -1 +1 @@\n-a\n+b\n"}
	if c := stray.Changes(); len(c.Files) != 1 || c.Added != 1 || c.Removed != 1 {
		t.Errorf("a diff without a head: %+v", c)
	}
}

// TestBrowser looks at every page, light on a desk and dark on a phone: layouts do not depend on
// colours.
func TestBrowser(t *testing.T) {
	browser := engines.RunChromium(t)
	for name, page := range made(t) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writePage(w, []byte(page))
		}))
		defer server.Close()
		for _, view := range []engines.View{
			{Width: 1400, Height: 900, Scheme: "light"}, {Width: 400, Height: 800, Scheme: "dark"},
		} {
			tab := engines.OpenPage(t, browser, server.URL+"/", view)
			name := fmt.Sprintf("%s-%d-%s", name, view.Width, view.Scheme)
			engines.EvalNone(t, tab, name+": wider than its place",
				engines.TooWide(".heard, pre *, svg", "body, .sheet, .file, li, td, th"))
			engines.EvalNone(t, tab, name+": hard to read", engines.HardToRead)
			engines.EvalNone(t, tab, name+": texts that overlap", engines.OnEachOther("main, .masthead, li, tr"))
			engines.KeepPicture(t, tab, name)
		}
		engines.Accessible(t, engines.OpenPage(t, browser, server.URL+"/", engines.View{Width: 1400, Height: 900}))
	}
}
