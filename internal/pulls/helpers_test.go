package pulls_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/pulls"
)

// memory is a store, with the links of the journal, that can fail before or after its effect.
type memory struct {
	links         []string
	rows          map[string]journal.PullRequest
	writes        int
	before, after bool
}

var errStore = errors.New("the store failed")

func (m *memory) FollowedPullRequests(context.Context) (all []journal.PullRequest, err error) {
	for _, link := range slices.Sorted(maps.Keys(m.rows)) {
		if p := m.rows[link]; !p.Final {
			all = append(all, p)
		}
	}
	return all, nil
}

func (m *memory) UnfollowedPullRequests(context.Context) (all []journal.PullRequest, err error) {
	for _, link := range m.links {
		if _, ok := m.rows[link]; !ok {
			all = append(all, journal.PullRequest{Link: link, Project: "prj_a"})
		}
	}
	return all, nil
}

func (m *memory) SetPullRequests(_ context.Context, all ...journal.PullRequest) error {
	if m.before {
		return errStore
	}
	m.writes++
	for _, p := range all {
		m.rows[p.Link] = p
	}
	return map[bool]error{true: errStore}[m.after]
}

// hub is a GitHub. refuse, if set, answers instead of it.
type hub struct {
	pulls  map[string]*pull // by path
	asked  map[string]int   // by path
	files  map[string]string
	count  int
	same   int // of count, how many answered 304
	ahead  time.Duration
	refuse func(*http.Request) (code int, header map[string]string)
}

type pull struct {
	Number       int        `json:"number"`
	State        string     `json:"state"`
	Draft        bool       `json:"draft"`
	Created      time.Time  `json:"created_at"`
	Merged       *time.Time `json:"merged_at"`
	Closed       *time.Time `json:"closed_at"`
	Head         commit     `json:"head"`
	MergeCommit  string     `json:"merge_commit_sha"`
	ready, again *time.Time
	reviewed     *time.Time
}

type commit struct {
	SHA string `json:"sha"`
}

func (h *hub) RoundTrip(req *http.Request) (*http.Response, error) {
	h.count++
	h.asked[req.URL.Path]++
	resp := &http.Response{Header: http.Header{}, Body: http.NoBody, Request: req}
	resp.Header.Set("Date", time.Now().Add(h.ahead).UTC().Format(http.TimeFormat))
	if h.refuse != nil {
		code, header := h.refuse(req)
		for k, v := range header {
			resp.Header.Set(k, v)
		}
		if code < 0 {
			return nil, errors.New("connection refused")
		}
		if code != 0 {
			resp.StatusCode = code
			return resp, nil
		}
	}
	body := h.body(req.URL.Path)
	tag := fmt.Sprintf(`W/"%x"`, crc32.ChecksumIEEE(body))
	resp.Header.Set("ETag", tag)
	switch {
	case body == nil:
		resp.StatusCode = http.StatusNotFound
	case req.Header.Get("If-None-Match") == tag:
		h.same++
		resp.StatusCode = http.StatusNotModified
	default:
		resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(string(body)))
	}
	return resp, nil
}

// body is the answer for a path: the pull request itself, or a part of it.
func (h *hub) body(path string) []byte {
	if _, name, is := strings.Cut(path, "/contents/"); is {
		text, ok := h.files[name]
		if !ok {
			return nil
		}
		body, _ := json.Marshal(map[string]any{"encoding": "base64", "content": []byte(text)})
		return body
	}
	if strings.Contains(path, "/commits/") {
		return []byte(`{"check_runs":[]}`)
	}
	base, part, _ := strings.Cut(strings.Replace(path, "/issues/", "/pulls/", 1), "/pulls/")
	number, part, _ := strings.Cut(part, "/")
	p := h.pulls[base+"/pulls/"+number]
	if p == nil {
		return nil
	}
	type entry map[string]any
	list := []entry{}
	add := func(at *time.Time, e entry, when string) {
		if at != nil {
			e[when] = at
			list = append(list, e)
		}
	}
	switch part {
	case "":
		body, _ := json.Marshal(p)
		return body
	case "events":
		add(p.ready, entry{"event": "ready_for_review"}, "created_at")
		add(p.again, entry{"event": "reopened"}, "created_at")
	case "reviews":
		add(p.reviewed, entry{"state": "APPROVED", "user": entry{"login": "ann"}}, "submitted_at")
	case "files": // every pull request changes one, beside docs.json
		changed := "a.mdx"
		for name := range h.files {
			changed = strings.TrimSuffix(name, "docs.json") + "a.mdx"
		}
		list = append(list, entry{"filename": changed})
	}
	body, _ := json.Marshal(list)
	return body
}

// bench is a follower over a store and a hub, whose host's clock is ahead of ours.
type bench struct {
	t *testing.T
	*pulls.Follower
	memory *memory
	hub    *hub
	token  string
	next   time.Time
}

func newBench(t *testing.T, links ...string) *bench {
	b := &bench{
		t: t, token: "token-of-the-tests",
		memory: &memory{rows: map[string]journal.PullRequest{}, links: links},
		hub:    &hub{pulls: map[string]*pull{}, asked: map[string]int{}},
	}
	b.restart()
	return b
}

// restart does the same as a new process.
func (b *bench) restart() {
	b.Follower = pulls.New(b.memory, b.client(), time.Now)
	b.next = time.Now()
}

func (b *bench) client() *codehost.Client {
	token := func() (string, error) { return b.token, nil }
	c, err := codehost.New(codehost.Options{GitHubToken: token, GitLabToken: token, Transport: b.hub})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// open adds an open pull request, made now by the host's clock.
func (b *bench) open(number int) *pull {
	p := &pull{Number: number, State: "open", Created: b.host(), Head: commit{"a"}}
	b.hub.pulls[fmt.Sprintf("/repos/acme/docs/pulls/%d", number)] = p
	return p
}

// follow adds links of the journal, to pull requests that were opened now.
func (b *bench) follow(n int) {
	for i := range n {
		b.memory.links = append(b.memory.links, link(i+1))
		b.open(i + 1)
	}
}

// merge merges a pull request some time ago.
func (b *bench) merge(p *pull, ago time.Duration) time.Time {
	at := b.host().Add(-ago)
	p.State, p.Merged, p.Closed, p.MergeCommit = "closed", &at, &at, "m"
	return at
}

// refuse lets the host answer with a code, unless that is 0 for the request.
func (b *bench) refuse(code func(path string) int) {
	b.hub.refuse = func(req *http.Request) (int, map[string]string) { return code(req.URL.Path), nil }
}

// host is the host's time.
func (b *bench) host() time.Time { return time.Now().Add(b.hub.ahead).UTC().Truncate(time.Second) }

// pass passes once.
func (b *bench) pass() {
	b.t.Helper()
	var err error
	if b.next, err = b.Pass(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// run passes whenever it is time to, for so long.
func (b *bench) run(d time.Duration) {
	b.t.Helper()
	end := time.Now().Add(d)
	for !b.next.IsZero() && !b.next.After(end) {
		if wait := time.Until(b.next); wait > 0 {
			time.Sleep(wait)
		}
		before := b.next
		b.pass()
		if !b.next.IsZero() && !b.next.After(before) && !b.next.After(time.Now()) {
			b.t.Fatalf("pass after pass at %v", b.next)
		}
	}
	time.Sleep(time.Until(end))
}

// asks returns how many requests f made.
func (b *bench) asks(f func()) int {
	before := b.hub.count
	f()
	return b.hub.count - before
}

// want fails unless the pull request is stored so; problem is a part of Problem.
func (b *bench) want(link string, state journal.PullState, problem string) journal.PullRequest {
	b.t.Helper()
	p := b.memory.rows[link]
	if p.State != state || (problem == "") != (p.Problem == "") || !strings.Contains(p.Problem, problem) ||
		strings.Contains(p.Problem, b.token) && b.token != "" {
		b.t.Errorf("%s is %s (%q), want %s (%q)", link, p.State, p.Problem, state, problem)
	}
	return p
}

func link(number int) string { return fmt.Sprintf("https://github.com/acme/docs/pull/%d", number) }
