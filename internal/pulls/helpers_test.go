package pulls_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/journal"
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

// hub is a GitHub with the project acme/docs, whose requests are counted. refuse, if set, answers instead of it; a
// negative code is no connection.
type hub struct {
	*fake.Host
	asked  map[string]int // by path
	count  int
	same   int // of count, how many answered 304
	ahead  time.Duration
	refuse func(*http.Request) (code int, header map[string]string)
	files  map[string]string
}

func newHub(t *testing.T) *hub {
	h := &hub{asked: map[string]int{}}
	store, err := fake.OpenStore("", func() time.Time { return time.Now().Add(h.ahead) })
	if err != nil {
		t.Fatal(err)
	}
	h.Host = fake.NewHost("github", "acme/docs", "").Over(store)
	h.Prefix = ""
	h.File = func(_ context.Context, _, path string) ([]byte, bool, error) {
		text, ok := h.files[path]
		return []byte(text), ok, nil
	}
	h.Fault = func(w http.ResponseWriter, r *http.Request, effect bool) bool {
		if effect || h.refuse == nil {
			return false
		}
		code, header := h.refuse(r)
		for k, v := range header {
			w.Header().Set(k, v)
		}
		switch {
		case code < 0:
			panic(http.ErrAbortHandler)
		case code > 0:
			w.WriteHeader(code)
		}
		return code > 0
	}
	return h
}

func (h *hub) RoundTrip(req *http.Request) (*http.Response, error) {
	h.count++
	h.asked[req.URL.Path]++
	resp, err := h.Host.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusNotModified {
		h.same++
	}
	return resp, err
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
		hub:    newHub(t),
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

// open adds the next open pull request, made now by the host's clock, with an action. It changes one page.
func (b *bench) open(actions ...fake.Action) {
	b.hub.Add(fake.Pull{Head: "a", MergeCommit: "m", Diff: "diff --git a/a.mdx b/a.mdx\n"}, actions...)
}

// follow adds links of the journal, to pull requests that were opened now.
func (b *bench) follow(n int) {
	for i := range n {
		b.memory.links = append(b.memory.links, link(i+1))
		b.open()
	}
}

// act does something to the first pull request, some time ago, and returns when by the host's clock.
func (b *bench) act(action fake.Action, ago time.Duration) time.Time {
	b.t.Helper()
	at := b.host().Add(-ago)
	if err := b.hub.Act(1, fake.Event{At: at, Action: action}); err != nil {
		b.t.Fatal(err)
	}
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
