package codehost_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
)

const hostToken = "token-of-the-tests"

// projects are paths on each kind of host, with a group of a group where that is possible.
var projects = map[string]string{"github": "docs-team/docs", "gitlab": "docs-team/web/docs.site",
	"gitea": "docs-team/docs"}

// eachHost runs a test on a server of each kind, without a network and in a bubble: pauses take no time.
func eachHost(t *testing.T, test func(t *testing.T, s *fake.Host, o *codehost.Opener)) {
	for _, kind := range codehost.Hosts {
		t.Run(kind.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(noon.Add(time.Hour)))
				s := fake.NewHost(kind.Name, projects[kind.Name], hostToken)
				s.Prefix = "/code" + kind.Suffix
				test(t, s, opener(t, s, fixed(hostToken+"\n")))
			})
		})
	}
}

func opener(t *testing.T, s *fake.Host, token func() (string, error)) *codehost.Opener {
	t.Helper()
	o, err := codehost.NewOpener(s.Kind.Name, s.Project, "https://git.example"+s.Prefix+"/", token, s)
	check(t, err)
	return o
}

var noon = time.Date(2026, 10, 14, 12, 0, 30, 0, time.UTC)

// proposed is what is asked for with a branch.
func proposed(branch string) codehost.Proposal {
	return codehost.Proposal{Branch: branch, Base: "main", Title: "one", Body: "of job_1", Ended: true,
		Since: noon.Add(-24 * time.Hour)}
}

// TestOnePullRequest: a branch gets one pull request, with what the job says; the ones of forks and of other
// branches are others.
func TestOnePullRequest(t *testing.T) {
	eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
		s.Add(fake.Pull{Branch: "b", Base: "main", Fork: true, OpenedAt: noon})
		var links []string
		for _, branch := range []string{"a", "a", "b", "a"} {
			link, err := o.Open(t.Context(), proposed(branch))
			check(t, err)
			links = append(links, link)
		}
		if diff := cmp.Diff([]string{s.Link(2), s.Link(2), s.Link(3), s.Link(2)}, links); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"GET", "POST", "GET", "GET", "POST", "GET"}, s.Asked()); diff != "" {
			t.Error(diff)
		}
		if got := s.Pulls()[1]; got.Title != "one" || got.Base != "main" || got.Branch != "a" ||
			!strings.Contains(got.Body, "\n\nof job_1\n\n") {
			t.Errorf("%+v", got)
		}
	})
}

// TestEndedPullRequest: one that a person ended before its link was known belongs to the job; once the
// job has a link, it gets a new one.
func TestEndedPullRequest(t *testing.T) {
	eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
		ended := s.Add(fake.Pull{Branch: "a", Base: "main", OpenedAt: noon}, fake.Merge)
		link, err := o.Open(t.Context(), proposed("a"))
		check(t, err)
		if link != s.Link(ended.Number) {
			t.Errorf("without a link: %s", link)
		}
		again := proposed("a")
		again.Ended = false
		for range 2 {
			if link, err = o.Open(t.Context(), again); err != nil || link != s.Link(2) {
				t.Errorf("with a link: %s, %v", link, err)
			}
		}
	})
}

// TestPullRequestText: a pull request is opened with labels and as a draft. Later only the text between our comments
// changes, while it is open; labels that people took away stay away.
func TestPullRequestText(t *testing.T) {
	eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
		p := proposed("a")
		p.Labels, p.Draft = []string{"docs", "by agent"}, true
		open := func() fake.Pull {
			t.Helper()
			link, err := o.Open(t.Context(), p)
			if check(t, err); link != s.Link(1) {
				t.Errorf("link %s", link)
			}
			return s.Pulls()[0]
		}
		if got := open(); got.State() != fake.Draft || got.Title != "one" || !slices.Equal(got.Labels, p.Labels) {
			t.Errorf("opened: %+v", got)
		}
		s.Change(1, func(pr *fake.Pull) {
			pr.Labels, pr.Body = nil, "By hand.\r\n"+strings.ReplaceAll(pr.Body, "\n", "\r\n")+"\r\nReviewed."
		})
		p.Ended, p.Body = false, "of job_1, and more"
		for range 2 {
			s.Asked()
			got := open()
			if got.Labels != nil || !strings.HasPrefix(got.Body, "By hand.\n") || !strings.HasSuffix(got.Body, "\nReviewed.") ||
				strings.Count(got.Body, "of job_1") != 1 || !strings.Contains(got.Body, "\n\nof job_1, and more\n\n") {
				t.Errorf("changed: %+v", got)
			}
		}
		if got := s.Asked(); len(got) != 1 {
			t.Errorf("nothing to change: %v", got)
		}
		s.Change(1, func(pr *fake.Pull) { pr.Body = "All by hand." })
		if got := open(); got.Body != "All by hand." {
			t.Errorf("by hand: %s", got.Body)
		}
		s.Fault = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusForbidden)
			}
			return r.Method != http.MethodGet
		}
		s.Change(1, func(pr *fake.Pull) {
			pr.Body = "<!-- docgauge: an update replaces the text from here -->" +
				"\n\nold\n\n<!-- docgauge: to here -->"
		})
		if link, err := o.Open(t.Context(), p); err == nil || link != s.Link(1) {
			t.Errorf("not changed: %q %v", link, err)
		}
	})
}

// TestMerged: the newest pull request of a branch counts.
func TestMerged(t *testing.T) {
	eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
		s.Add(fake.Pull{Branch: "a", Base: "main", Fork: true, OpenedAt: noon}, fake.Merge)
		expect := func(want bool) {
			t.Helper()
			if got, err := o.Merged(t.Context(), proposed("a")); err != nil || got != want {
				t.Errorf("%t, %v", got, err)
			}
		}
		expect(false)
		s.Add(fake.Pull{Branch: "a", Base: "main", OpenedAt: noon}, fake.Close)
		expect(false)
		s.Add(fake.Pull{Branch: "a", Base: "main", OpenedAt: noon}, fake.Merge)
		expect(true)
		s.Add(fake.Pull{Branch: "a", Base: "main", OpenedAt: noon})
		expect(false)
	})
}

// TestAmongManyPullRequests: Gitea's list is read as far as the job is old.
func TestAmongManyPullRequests(t *testing.T) {
	eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
		s.PerPage = 10 // the server may give fewer than asked for
		for range 50 {
			s.Add(fake.Pull{Branch: "old", OpenedAt: noon.Add(-48 * time.Hour)}, fake.Close)
		}
		s.Add(fake.Pull{Branch: "a", Base: "main", OpenedAt: noon})
		for range 25 {
			s.Add(fake.Pull{Branch: "other", OpenedAt: noon}, fake.Close)
		}
		if link, err := o.Open(t.Context(), proposed("a")); err != nil || link != s.Link(51) {
			t.Errorf("%s, %v", link, err)
		}
		s.Asked()
		if link, err := o.Open(t.Context(), proposed("b")); err != nil || link != s.Link(77) {
			t.Errorf("%s, %v", link, err)
		}
		if got := len(s.Asked()); got > 5 {
			t.Errorf("%d requests", got)
		}
	})
}

// TestHostFaults: whatever becomes of a response, there is one pull request at most; a failure that may pass is
// tried again; other failures are errors without the token.
func TestHostFaults(t *testing.T) {
	answer := func(status int, body string, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	drop := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	late := false
	lostAndLate := func(w http.ResponseWriter) { // the list that is asked for then lacks the pull request
		if late = !late; late {
			drop(w)
		}
		answer(200, "[]")(w)
	}
	quota := func(wait time.Duration) (header []string) {
		for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
			header = append(header, prefix+"Limit", "5000", prefix+"Remaining", "0", prefix+"Reset",
				strconv.FormatInt(noon.Add(time.Hour+wait).Unix(), 10))
		}
		return header
	}
	post, get := []string{http.MethodPost}, []string{http.MethodGet}
	both := append(post, get...)
	elsewhere := []string{"Location", "https://elsewhere.example/"}
	message := func(text string) string { return `{"message":"` + text + `"}` }
	link := func(link string) func(http.ResponseWriter) {
		return answer(201, `{"html_url":"`+link+`","web_url":"`+link+`"}`)
	}
	const (
		retryAfter = "Retry-After"
		always     = 99
		secondary  = `{"message":"slow","documentation_url":"https://docs.example/rest#about-secondary-rate-limits"}`
		ofGitHub   = `{"message":"Validation Failed","errors":[{"message":"No commits between"}]}`
		ofGitLab   = `{"error":"insufficient_scope","error_description":"needs more"}`
	)
	for name, tc := range map[string]struct {
		methods []string
		effect  bool // the fault comes after it
		times   int  // of the fault
		fault   func(http.ResponseWriter)
		want    string        // part of the error; empty = it is opened
		took    time.Duration // at least
	}{
		"lost":                {post, true, 1, drop, "", 0},
		"lost, 502":           {post, true, 1, answer(502, ""), "", 0},
		"lost, HTML":          {post, true, 1, answer(200, "<html>"), "", 0},
		"lost four times":     {post, true, 4, drop, "", 0},
		"lost, list fails":    {both, true, 2, drop, "", 0},
		"lost, list is HTML":  {both, true, 2, answer(200, "<html>"), "", 0},
		"lost, list is late":  {both, true, 2, lostAndLate, "", 0},
		"secondary limit":     {post, false, 1, answer(403, secondary), "", time.Minute},
		"secondary, for good": {post, false, always, answer(403, secondary), "slow; %s asks for fewer requests", 0},
		"quota":               {both, false, 1, answer(403, message("over"), quota(100*time.Second)...), "", 100 * time.Second},
		"quota for an hour": {both, false, always, answer(403, message("over"), quota(time.Hour)...),
			"over; %s lets the token make no more requests", 0},
		"list is late":       {get, false, 1, nil, "", 0},
		"dropped":            {post, false, 1, drop, "", 0},
		"dropped for good":   {both, false, always, drop, "connection reset", 40 * time.Second},
		"503":                {both, false, 3, answer(503, "x"), "", 40 * time.Second},
		"503 for good":       {post, false, always, answer(503, "x"), "503 Service Unavailable: without a message", 0},
		"429":                {both, false, 1, answer(429, message("slow"), retryAfter, "90"), "", 90 * time.Second},
		"403 with a pause":   {post, false, 1, answer(403, message("limit"), retryAfter, "60"), "", time.Minute},
		"429 for an hour":    {get, false, 1, answer(429, message("slow"), retryAfter, "3600"), "429 Too Many", 0},
		"422":                {post, false, always, answer(422, ofGitHub), "Validation Failed; No commits between", 0},
		"fields":             {post, false, always, answer(400, `{"message":{"title":["is long"]}}`), "title is long", 0},
		"scope":              {post, false, always, answer(403, ofGitLab), "insufficient_scope; needs more; want a token", 0},
		"token in it":        {post, false, always, answer(403, message("no "+hostToken)), "no [redacted]", 0},
		"long":               {post, false, always, answer(400, message(strings.Repeat("ü", 1000))), "ü…", 0},
		"redirect":           {post, false, always, answer(307, "", elsewhere...), "redirects are not followed", 0},
		"list is redirected": {get, false, always, answer(301, "", elsewhere...), "redirects are not followed", 0},
		"not to be seen":     {get, false, always, answer(404, message("Not Found")), "a token that may read it", 0},
		"javascript":         {post, true, always, link("javascript:alert(1)"), "want a link with https", 0},
		"plain http":         {post, true, always, link("http://git.example/1"), "want a link with https", 0},
		"no link":            {post, true, always, answer(201, `{}`), "want a link with https", 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
				times := 0
				s.Fault = func(w http.ResponseWriter, r *http.Request, effect bool) bool {
					switch {
					case effect != tc.effect || !slices.Contains(tc.methods, r.Method) || times == tc.times:
						return false
					case len(tc.methods) == 2 && tc.effect && r.Method == http.MethodGet && times == 0:
						return false // the list fails after the response was lost
					}
					times++
					if tc.fault == nil { // the list does not have the newest yet
						s.Add(fake.Pull{Branch: "new", Base: "main"})
						answer(200, "[]")(w)
						return true
					}
					tc.fault(w)
					return true
				}
				began := time.Now()
				link, err := o.Open(t.Context(), proposed("new"))
				want := strings.Replace(tc.want, "%s", s.Kind.Title, 1)
				switch {
				case want == "" && (err != nil || link != s.Link(1)):
					t.Errorf("%s, %v", link, err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 600 ||
					strings.Contains(err.Error(), hostToken) || !strings.HasPrefix(err.Error(), s.Kind.Title+" "+s.Project)):
					t.Errorf("%q %v, want %q", link, err, want)
				}
				if took := time.Since(began); took < tc.took || took > 10*time.Minute {
					t.Errorf("took %s", took)
				}
				if pulls := s.Pulls(); len(pulls) > 1 || want == "" && len(pulls) != 1 {
					t.Errorf("pull requests: %+v", pulls)
				}
			})
		})
	}
}

func TestHostTokens(t *testing.T) {
	for want, token := range map[string]func() (string, error){
		"is empty": fixed("\n"), "is missing": nil,
		"no such file": func() (string, error) { return "", errors.New("no such file") },
	} {
		eachHost(t, func(t *testing.T, s *fake.Host, _ *codehost.Opener) {
			o := opener(t, s, token)
			if _, err := o.Open(t.Context(), proposed("a")); err == nil ||
				!strings.Contains(err.Error(), want) || len(s.Asked()) > 0 {
				t.Errorf("%v", err)
			}
			if _, _, _, err := o.Login(); err == nil {
				t.Error("login without a token")
			}
		})
	}
}

// TestRightsOfToken: nothing is tried to find out what the token may do.
func TestRightsOfToken(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fake.Host)
		want   string
	}{
		"good":      {func(*fake.Host) {}, ""},
		"wrong":     {func(s *fake.Host) { s.Token = "other" }, "status 401 Unauthorized"},
		"private":   {func(s *fake.Host) { s.Project = "docs-team/other" }, "a token that may read it"},
		"read only": {func(s *fake.Host) { s.ReadOnly = true }, "the token "},
	} {
		t.Run(name, func(t *testing.T) {
			eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
				tc.change(s)
				err := o.Check(t.Context())
				if s.ReadOnly && s.Kind.Name == "gitea" {
					tc.want = "" // it says what the account may do, whatever the token may
				}
				if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				if slices.Contains(s.Asked(), http.MethodPost) {
					t.Error("it was tried")
				}
			})
		})
	}
	said := func(body string) func(http.ResponseWriter, *http.Request, bool) bool {
		return func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			if strings.HasSuffix(r.URL.Path, "/self") {
				http.Error(w, `{"message":"404 Not found"}`, http.StatusNotFound) // as for a deploy token
			} else {
				fmt.Fprint(w, body)
			}
			return true
		}
	}
	for _, tc := range [][3]string{
		{"gitlab", `{"permissions":{"project_access":null,"group_access":null}}`, ""},
		{"gitlab", `{"permissions":{"project_access":{"access_level":20},"group_access":{"access_level":40}}}`, ""},
		{"gitlab", `{"permissions":{"project_access":{"access_level":20},"group_access":null}}`, "may not write"},
		{"gitlab", `{"can_create_merge_request_in":false,"permissions":{}}`, "may not write"},
		{"gitlab", `{"merge_requests_access_level":"disabled","permissions":{}}`, "switched off"},
		{"gitlab", `{"archived":true,"permissions":{}}`, "is archived"},
		{"gitea", `{"permissions":{"push":true}}`, ""},
		{"gitea", `{"has_pull_requests":false,"permissions":{"push":true}}`, "switched off"},
		{"github", `{"archived":true,"permissions":{"push":true}}`, "is archived"},
		{"github", `{}`, "may not write"},
		{"github", `<html>`, "not of GitHub's API"},
	} {
		eachHost(t, func(t *testing.T, s *fake.Host, o *codehost.Opener) {
			s.Fault = said(tc[1])
			if err := o.Check(t.Context()); s.Kind.Name == tc[0] && ((err != nil) != (tc[2] != "") ||
				err != nil && !strings.Contains(err.Error(), tc[2])) {
				t.Errorf("%s: %v, want %q", tc[1], err, tc[2])
			}
		})
	}
}

func TestCodeHostOptions(t *testing.T) {
	for _, c := range [][3]string{
		{"github", "docs", ""}, {"github", "a/b/c", ""}, {"github", "a/..", ""}, {"github", "-a/b", ""}, {"github", "", ""},
		{"github", "a/b", "http://api.github.com"}, {"github", "a/b", "https://u:p@h"}, {"github", "a/b", "h"},
		{"github", "a/b", "https://h?x"}, {"gitlab", "a", ""}, {"gitlab", "a/../b", ""}, {"gitlab", "a/b%2Fc", ""},
		{"gitlab", "a//b", ""}, {"gitea", "a/b/c", ""}, {"gitea", "a/b?x", ""}, {"svn", "a/b", "https://h"},
	} {
		if _, err := codehost.NewOpener(c[0], c[1], c[2], nil, nil); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
	for _, c := range [][3]string{
		{"github", "", "https://github.com/ x-access-token"},
		{"github", "https://ghe.example/api/v3", "https://ghe.example/ x-access-token"},
		{"gitlab", "", "https://gitlab.com/ oauth2"},
		{"gitlab", "https://example.com/gitlab/api/v4/", "https://example.com/gitlab/ oauth2"},
		{"gitea", "", "https://codeberg.org/ x-access-token"},
		{"gitea", "http://[::1]:3000/git/api/v1", "http://[::1]:3000/git/ x-access-token"},
	} {
		o, err := codehost.NewOpener(c[0], "a/b", c[1], fixed("t\n"), nil)
		check(t, err)
		prefix, user, password, err := o.Login()
		if prefix+" "+user != c[2] || password != "t" || err != nil {
			t.Errorf("%v: %s %s %s %v", c, prefix, user, password, err)
		}
	}
}
