package codehost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/journal"
)

const (
	// longestWait is how long a host is left alone at most, whatever it asks for.
	longestWait = time.Hour
	// asked stands for the ETag of an answer that had none, or was a list of several pages.
	asked = "-"
)

// reading is one Read: the pull request as it becomes, and the token it is made with.
type reading struct {
	*server
	token string
	pr    journal.PullRequest
	// draft means that the answer said so; one that is closed can be a draft.
	draft bool
}

// resource reads one resource into v, unless it still has the ETag kept under key.
func (r *reading) resource(ctx context.Context, key, path string, v any) (changed bool, err error) {
	tag, _, err := r.get(ctx, path, r.pr.ETags[key], v)
	if err != nil || tag == "" {
		return false, err
	}
	r.pr.ETags[key] = tag
	return true, nil
}

// list reads the first pages of a list, up to most entries, unless its only page is unchanged.
func list[T any](ctx context.Context, r *reading, key, path string, most int) (all []T, changed bool, err error) {
	return listIn(ctx, r, key, path, most, func(page []T) []T { return page })
}

// listIn is list for pages that have their entries in a field.
func listIn[P, T any](
	ctx context.Context, r *reading, key, path string, most int, in func(P) []T,
) (all []T, changed bool, err error) {
	former := r.pr.ETags[key]
	for number := 1; len(all) < most; number++ {
		var page P
		tag, more, err := r.get(ctx, fmt.Sprintf("%s?%s&page=%d", path, r.pageSize, number), former, &page)
		if err != nil || tag == "" {
			return nil, false, err
		}
		some := in(page)
		all = append(all, some...)
		if len(some) < r.perPage || r.perPage == 0 && (!more || len(some) == 0) {
			if number > 1 {
				tag = asked
			}
			r.pr.ETags[key] = tag
			return all, true, nil
		}
		former = ""
	}
	r.pr.ETags[key] = asked
	return all, true, nil
}

// get reads one answer into v and returns its ETag, or none if the answer is the one that
// former is the ETag of, and whether it says that a list has another page.
func (r *reading) get(ctx context.Context, path, former string, v any) (tag string, more bool, err error) {
	req, err := r.request(ctx, http.MethodGet, path, r.token, nil)
	if err != nil {
		return "", false, r.failed(Transient, "cannot be asked for "+r.pr.Repository, err)
	}
	if former != "" && former != asked {
		req.Header.Set("If-None-Match", former)
	}
	r.mu.Lock()
	r.pace.ahead = clock.Later(r.pace.ahead, r.now()).Add(paceGap)
	r.mu.Unlock()
	resp, err := r.client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return "", false, r.failed(Transient, "cannot be reached at "+r.api.Host, err)
	}
	defer resp.Body.Close()
	r.learn(resp)
	switch {
	case resp.StatusCode == http.StatusNotModified && former != "":
		return "", false, nil
	case resp.StatusCode != http.StatusOK:
		return "", false, r.refusal(resp)
	}
	ok, err := decode(resp, v)
	switch {
	case err != nil:
		return "", false, r.failed(Transient, "broke off its answer about "+r.pr.Repository, err)
	case !ok: // the error does not quote what was not understood
		return "", false, r.garbled()
	}
	return cmp.Or(resp.Header.Get("ETag"), asked), hasNext(resp.Header), nil
}

func (h *server) failed(kind Kind, what string, cause error) *Error {
	return &Error{Kind: kind, text: h.Title + " " + what, cause: cause}
}

func (r *reading) garbled() *Error {
	return r.failed(Transient,
		"gave an answer about "+r.pr.Repository+" that is none of its API (check "+r.setting+"_URL and the proxy)", nil)
}

// refusal classifies an answer that is not a success.
func (r *reading) refusal(resp *http.Response) *Error {
	_, documentation := errorMessage(resp)
	if what, pause := r.limitOf(resp, documentation); what != "" {
		return r.limited(what, r.now().Add(pause))
	}
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized:
		return r.failed(Unauthorized,
			"refuses the token: it is expired, revoked or wrong (replace "+r.setting+"_TOKEN)", nil)
	case code == http.StatusNotFound, code == http.StatusGone:
		return r.failed(Hidden, "does not find it: it is deleted or renamed, or the token of "+r.setting+
			"_TOKEN must not read "+r.pr.Repository, nil)
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		return r.failed(Hidden,
			"redirects it elsewhere: "+r.pr.Repository+" was renamed or moved "+
				"(a redirect is never followed with a token)", nil)
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout:
		return r.failed(Hidden,
			fmt.Sprintf("refuses to show %s with status %d (give the token of %s_TOKEN read access to it)",
				r.pr.Repository, code, r.setting), nil)
	default:
		return r.failed(Transient, fmt.Sprintf("fails with status %d", code), nil)
	}
}

// limitOf returns what a host says that refuses because of too many requests, and the pause that it asks for; empty for
// another refusal. GitHub names a limit on requests at once by the address of that page of its documentation, with or
// without Retry-After.
func (h *server) limitOf(resp *http.Response, documentation string) (what string, pause time.Duration) {
	pause, said := retryAfter(resp, longestWait)
	_, left, reset := h.quotaOf(resp)
	switch code := resp.StatusCode; {
	case code != http.StatusForbidden && code != http.StatusTooManyRequests:
	case left == 0:
		return quotaUsed, max(pause, reset.Sub(h.now()))
	case code == http.StatusTooManyRequests, said, strings.HasSuffix(documentation, "secondary-rate-limits"),
		strings.HasSuffix(documentation, "#abuse-rate-limits"):
		return tooMany, pause
	}
	return "", 0
}

// What a limited host says.
const (
	quotaUsed = "lets the token make no more requests for now: its quota is used up"
	tooMany   = "asks for fewer requests"
)

func (h *server) limited(what string, until time.Time) *Error {
	now := h.now()
	e := h.failed(Limited, what, nil)
	if until.After(now) {
		e.Until = earlier(until, now.Add(longestWait))
	}
	return e
}

// local returns a time of the host by our clock.
func (h *server) local(resp *http.Response, t time.Time) time.Time {
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return t.Add(h.now().Sub(date))
	}
	return t
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
