package codehost_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/journal"
)

const token = "ghp_s3cret-of-the-tests"

func fixed(token string) func() (string, error) { return func() (string, error) { return token, nil } }

// now is an odd moment.
var now = time.Date(2026, 10, 5, 13, 37, 11, 0, time.UTC)

// wire is a host: its answers by request URI, and the requests it got.
type wire struct {
	answers map[string]string // by path, or by path and query; "" is 404
	asked   []string          // the URIs; with =304 at the end, it answered so
	answer  func(*http.Request) *http.Response
	// untagged: it gives no ETags, as Gitea.
	untagged bool
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	uri := req.URL.RequestURI()
	w.asked = append(w.asked, uri)
	if w.answer != nil {
		return w.answer(req), nil
	}
	body, ok := w.answers[uri]
	if !ok {
		body = w.answers[req.URL.EscapedPath()]
	}
	if body == "" {
		return respond(http.StatusNotFound, nil, `{"message":"Not Found"}`), nil
	}
	tag := fmt.Sprintf(`W/"%x"`, body)
	if req.Header.Get("If-None-Match") == tag {
		w.asked[len(w.asked)-1] += "=304"
		return respond(http.StatusNotModified, nil, ""), nil
	}
	if w.untagged {
		return respond(http.StatusOK, nil, body), nil
	}
	return respond(http.StatusOK, map[string]string{"ETag": tag}, body), nil
}

func respond(code int, header map[string]string, body string) *http.Response {
	resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		Request: &http.Request{}}
	for k, v := range header {
		resp.Header.Set(k, v)
	}
	return resp
}

// want fails unless exactly these were asked since the last call.
func (w *wire) want(t *testing.T, uris ...string) {
	t.Helper()
	if got, want := strings.Join(w.asked, "\n"), strings.Join(uris, "\n"); got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
	w.asked = nil
}

func client(t *testing.T, transport http.RoundTripper) *codehost.Client {
	t.Helper()
	c, err := codehost.New(codehost.Options{
		GitHubToken: fixed(token), GitLabToken: fixed("glpat-" + token), GiteaToken: fixed("gt-" + token),
		Transport: transport,
		Now:       func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, c *codehost.Client, former journal.PullRequest) journal.PullRequest {
	t.Helper()
	pr, err := c.Read(t.Context(), former)
	if err != nil {
		t.Fatal(err)
	}
	return pr
}

// life returns a step in the life of a pull request: it reads pr once more, and fails unless it is as wanted then,
// after requests of these, in this order.
func life(t *testing.T, w *wire, pr, want *journal.PullRequest) func(name string, asked ...string) {
	c := client(t, w)
	return func(name string, asked ...string) {
		t.Helper()
		former, tags := *pr, maps.Clone(pr.ETags)
		*pr = read(t, c, *pr)
		got := *pr
		got.ETags = nil
		if diff := cmp.Diff(*want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !maps.Equal(former.ETags, tags) {
			t.Errorf("%s: the former's ETags were changed", name)
		}
		w.want(t, asked...)
	}
}

// at is a time of the host, some minutes after midnight.
func at(minute int) time.Time { return time.Date(2026, 10, 5, 0, minute, 0, 0, time.UTC) }

// list is a list in JSON.
func list(entries ...string) string { return "[" + strings.Join(entries, ",") + "]" }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
