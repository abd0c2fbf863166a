package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/view"
)

// TestPrintProposals: a project without misses does not hide the next one.
func TestPrintProposals(t *testing.T) {
	day := analytics.Date(20000)
	window := analytics.Window{From: day, To: day + 1}
	miss := view.MissedPath{Project: "prj_b", Path: "/old"}
	var out strings.Builder
	check(t, printProposals(&out, []query.MissedPaths{
		{Project: "prj_a", Window: window},
		{Project: "prj_b", Window: window, Misses: []view.MissedPath{miss}},
	}, []redirects.Proposal{{MissedPath: miss, Grade: redirects.None, Reason: "no page has these words"}}, render.Wording{}))
	for _, want := range []string{"prj_a", "prj_b", "/old"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

// redirectedSite is a site of which docs/install.md was renamed to docs/p0.md, with its repository at a code host.
type redirectedSite struct {
	*testing.T
	clone, bare, pages, token string
	host                      *fake.Host
	url                       string // of the host
}

func newRedirectedSite(t *testing.T, kind string) *redirectedSite {
	s := &redirectedSite{T: t, clone: engines.GitRepository(t), pages: t.TempDir(), token: "token-of-the-site"}
	s.host = fake.NewHost(kind, "team/docs", s.token)
	root := t.TempDir()
	s.bare = filepath.Join(root, "team", "docs.git")
	git, err := engines.GitServer(root, s.host.GitAuthorization())
	check(t, err)
	mux := http.NewServeMux()
	mux.Handle("/team/docs.git/", git)
	mux.Handle(s.host.Prefix+"/", s.host)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url, s.host.Web = server.URL, server.URL
	for _, dir := range []string{s.clone, s.pages} {
		check(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	}
	for page := range 8 {
		name := filepath.Join("docs", fmt.Sprintf("p%d", page))
		writeText(t, filepath.Join(s.clone, name+".md"), fmt.Sprintf("# Page %d\n\nIt says %[1]d.\n", page))
		writeText(t, filepath.Join(s.pages, name), "here")
	}
	check(t, os.Rename(filepath.Join(s.clone, "docs", "p0.md"), filepath.Join(s.clone, "docs", "install.md")))
	for _, args := range [][]string{{"add", "."}, {"commit", "--quiet", "-m", "pages"},
		{"mv", "docs/install.md", "docs/p0.md"}, {"commit", "--quiet", "-m", "rename"}} {
		engines.Git(t, s.clone, args...)
	}
	engines.Git(t, ".", "clone", "--quiet", "--bare", s.clone, s.bare)
	engines.Git(t, s.bare, "config", "http.receivepack", "true")
	return s
}

// visits has 24 agents in two networks ask nginx, which has the redirects of the base branch, for /docs/install on each
// day, in three forms, and follow where it leads. They must come to want, or with an empty one find nothing. It returns nginx's log.
func (s *redirectedSite) visits(from, to int, want string) string {
	s.Helper()
	rules, redirect := "", ""
	if want != "" {
		rules = engines.Git(s.T, s.bare, "show", "main:redirects.map")
		redirect = "if ($docgauge_redirect) { return 301 $docgauge_redirect; }"
	}
	w := engines.RunNginx(s.T, s.pages, map[string]string{
		"access": `$http_x_address - - [$time] "$request" $status $body_bytes_sent "-" "$http_user_agent"`}, rules, redirect)
	for ago := from; ago >= to; ago-- {
		for reader := range 24 {
			form := []string{"", "/", ".md"}[reader/6%3]
			r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+w.Addr+"/docs/install"+form, nil)
			check(s.T, err)
			r.Header.Set("X-Time", testbed.DaysAgo(ago).Time().Format("02/Jan/2006")+":12:00:00 +0000")
			r.Header.Set("X-Address", fmt.Sprintf("%s.%d", []string{"192.0.2", "198.51.100"}[reader%2], reader))
			r.Header.Set("User-Agent", []string{"Claude-User/1.0", "ChatGPT-User/1.0", "opencode/1.0"}[reader%3])
			resp, err := http.DefaultClient.Do(r)
			check(s.T, err)
			check(s.T, resp.Body.Close())
			if found := resp.StatusCode == http.StatusOK; found != (want != "") || found && resp.Request.URL.Path != want {
				s.Fatalf("%d days ago: %s at %s, want %q", ago, resp.Status, resp.Request.URL, want)
			}
		}
	}
	check(s.T, w.Stop())
	log, err := os.ReadFile(w.Log("access"))
	check(s.T, err)
	return string(log)
}

// merge merges the pull request on a day.
func (s *redirectedSite) merge(ago int) {
	s.Helper()
	pulls := s.host.Pulls()
	if len(pulls) != 1 {
		s.Fatalf("%d pull requests", len(pulls))
	}
	check(s.T, s.host.Act(1, fake.Event{Action: fake.Merge}))
	then := "alias.then=!GIT_COMMITTER_DATE=" + testbed.DaysAgo(ago).String() + "T06:00:00Z git merge --quiet --no-ff"
	for _, args := range [][]string{{"fetch", "--quiet", s.bare, pulls[0].Branch},
		{"-c", then, "then", "-m", "merge", "FETCH_HEAD"}, {"push", "--quiet", s.bare, "HEAD:main"}} {
		engines.Git(s.T, s.clone, args...)
	}
}

// TestRedirectsLeadReaders: agents miss a page that was renamed; docgauge counts that, exports it, and opens a pull
// request with the redirect; once it is merged, nginx redirects, the agents find the page, and its outcome is right.
func TestRedirectsLeadReaders(t *testing.T) {
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			testbed.NotAtMidnight()
			s := newRedirectedSite(t, kind)
			mine := []string{"DOCGAUGE_WINDOWS=day", "DOCGAUGE_REPORTS=visitors,agents",
				"DOCGAUGE_SINCE=" + testbed.DaysAgo(siteDays).String()}
			asSite := []string{"DOCGAUGE_SITE_REPO=" + sandbox.DefaultProject + "=" + s.url + "/team/docs.git",
				"DOCGAUGE_SITE_TOKEN=" + s.token, "DOCGAUGE_SITE_CODE_HOST=" + kind,
				"DOCGAUGE_SITE_CODE_HOST_URL=" + s.url + s.host.Prefix}
			p := placeFor(t, &testbed.Service{}, []string{sandbox.DefaultProject}, mine...)
			of := func(p place, env ...string) place { return place{p.dir, slices.Concat(p.env, env)} }
			write := []string{"redirects", "--write", "nginx", "redirects.map", "--pull-request"}
			withVisits := func(lines string) string {
				return siteLog(1, func(log *strings.Builder, _ int, day string) {
					for line := range strings.Lines(lines) {
						if strings.Contains(line, "["+day+":") {
							log.WriteString(line)
						}
					}
				})
			}

			// The day of the merge has come: no line is later.
			log := filepath.Join(p.dir, "access.log")
			before := s.visits(siteDays, siteMerge+1, "")
			text, _, _ := strings.Cut(withVisits(before), "["+testbed.DaysAgo(siteMerge).Time().Format("02/Jan/2006"))
			writeText(t, log, text[:strings.LastIndexByte(text, '\n')+1])
			then := of(p, fmt.Sprintf("CLOCK_AHEAD=-%dh", siteMerge*24))
			then, site := then.overSite(t, log)
			then.run(t, "export")
			site.stop(t)
			link := s.url + "/team/docs" + map[string]string{"github": "/pull/1", "gitea": "/pulls/1"}[kind]
			if out := string(of(then, asSite...).run(t, write...)); !strings.Contains(out, link) {
				t.Fatalf("the pull request: %s, want %s of\n%s", out, link, of(then, asSite...).run(t, "redirects", "--csv"))
			}
			s.merge(siteMerge)

			writeText(t, log, withVisits(before+s.visits(siteMerge, 0, "/docs/p0"))) // it begins as before
			p, site = p.overSite(t, log)
			p.run(t, "export")
			site.stop(t)
			if out := string(of(p, asSite...).run(t, write...)); !strings.Contains(out, "nothing to add") {
				t.Errorf("after the merge: %s", out)
			}
			var outcomes view.Outcomes
			check(t, json.Unmarshal(p.run(t, "outcomes", "--json"), &outcomes))
			if len(outcomes.Redirects) != 1 {
				t.Fatalf("%+v", outcomes)
			}
			got := outcomes.Redirects[0]
			// Whether chance alone moves the people depends on the weekdays.
			more := slices.ContainsFunc(got.Effects, func(e view.Effect) bool {
				return e.Audience == analytics.AI && e.Verdict == view.MoreReaders
			})
			if got.Path != "/docs/install" || got.Target != "/docs/p0" ||
				analytics.DateOf(got.Since) != testbed.DaysAgo(siteMerge) || !got.Final || !more ||
				got.MissedText() != "missed 24.0 times a day before, 0.0 since" {
				t.Errorf("%s: %+v", got.MissedText(), got)
			}
		})
	}
}
