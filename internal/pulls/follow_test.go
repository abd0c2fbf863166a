package pulls_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/pulls"
	"github.com/docgauge/docgauge/internal/state"
)

const (
	hour = time.Hour
	day  = 24 * hour
	// pathOfOne is the path of the first pull request.
	pathOfOne = "/repos/acme/docs/pulls/1"
)

// bubble runs a test that begins at an odd moment.
func bubble(t *testing.T, f func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(13*hour + 37*time.Minute + 11*time.Second)
		f(t)
	})
}

// TestLife follows one pull request through its life, with the reads counted: the back-off
// with its age, what an unchanged answer costs, and nothing after the end.
func TestLife(t *testing.T) {
	for _, ahead := range []time.Duration{0, 40 * time.Minute, -40 * time.Minute, 50 * hour, -50 * hour} {
		t.Run(fmt.Sprint("the host's clock is ahead by ", ahead), func(t *testing.T) {
			bubble(t, func(t *testing.T) { life(t, ahead) })
		})
	}
}

func life(t *testing.T, ahead time.Duration) {
	b := newBench(t, link(1))
	b.hub.ahead = ahead
	b.open(fake.ConvertToDraft)
	b.pass()
	b.want(link(1), journal.PullDraft, "")
	// reads counts the reads in some time, of which there must be so many by a right clock.
	reads := func(d time.Duration, least, most int) {
		t.Helper()
		before := b.hub.asked[pathOfOne]
		b.run(d)
		if n := b.hub.asked[pathOfOne] - before; n < least && ahead == 0 || n > most && ahead == 0 {
			t.Errorf("%d reads in %v, want %d to %d", n, d, least, most)
		}
	}
	reads(hour-time.Second, 29, 29)
	b.hub.count, b.hub.same = 0, 0
	reads(23*hour, 136, 139)
	if b.hub.same != b.hub.count || b.hub.count == 0 {
		t.Errorf("of %d requests, %d cost nothing", b.hub.count, b.hub.same)
	}

	ready := b.act(fake.Ready, 0)
	b.run(day)
	if got := b.want(link(1), journal.PullOpen, ""); !got.Ready.Equal(ready) {
		t.Errorf("ready at %v, want %v", got.Ready, ready)
	}
	b.hub.Change(1, func(p *fake.Pull) { p.Head = "forced" })
	b.run(day)
	if got := b.want(link(1), journal.PullOpen, ""); got.Commit != "forced" {
		t.Errorf("%+v", got)
	}

	closed := b.act(fake.Close, 0)
	b.run(2 * hour)
	if got := b.want(link(1), journal.PullClosed, ""); !got.Closed.Equal(closed) || got.Final {
		t.Errorf("%+v", got)
	}
	again := b.act(fake.Reopen, 0)
	b.run(day)
	if got := b.want(link(1), journal.PullOpen, ""); !got.Reopened.Equal(again) || !got.Closed.IsZero() {
		t.Errorf("%+v", got)
	}
	b.run(31 * day)
	reads(10*day, 9, 11)

	reviewed := b.act(fake.Approve, time.Minute)
	merged := b.act(fake.Merge, 0)
	before := b.hub.asked[pathOfOne]
	reads(10*day, 2, 2)
	got := b.want(link(1), journal.PullMerged, "")
	if !got.Merged.Equal(merged) || !got.FirstReview.Equal(reviewed) || !got.Final || got.Commit != "m" ||
		len(got.Changed) != 1 || b.hub.asked[pathOfOne]-before < 2 {
		t.Errorf("%+v", got)
	}
	b.restart()
	if n := b.asks(func() { b.run(365 * day) }); n != 0 || !b.next.IsZero() {
		t.Errorf("%d requests after the last one; next %v", n, b.next)
	}
}

// TestMergedLongAgo: what ended long before it was first read is read once.
func TestMergedLongAgo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, link(1))
		b.open()
		b.act(fake.Merge, 20*day)
		b.pass()
		if got := b.want(link(1), journal.PullMerged, ""); !got.Final || len(got.Changed) != 1 || !b.next.IsZero() {
			t.Errorf("%+v, next %v", got, b.next)
		}
	})
}

// TestMergedForEver: a host that answers the last read from an old copy takes back no merge,
// and moves none of the times that the counters are made of.
func TestMergedForEver(t *testing.T) {
	for name, says := range map[string]func(p *fake.Pull){
		"open":         func(p *fake.Pull) { p.History = nil },
		"closed":       func(p *fake.Pull) { p.History[0].Action = fake.Close },
		"merged later": func(p *fake.Pull) { p.History[0].At = p.History[0].At.Add(hour) },
		"begun sooner": func(p *fake.Pull) { p.OpenedAt = p.OpenedAt.Add(-hour) },
	} {
		bubble(t, func(t *testing.T) {
			b := newBench(t, link(1))
			b.open()
			b.pass()
			b.run(hour)
			b.act(fake.Merge, 0)
			b.run(10 * time.Minute)
			was := b.want(link(1), journal.PullMerged, "")
			b.hub.Change(1, says)
			b.run(2 * day)
			is := b.want(link(1), journal.PullMerged, "")
			if !is.Final || !is.Merged.Equal(was.Merged) || !is.Opened().Equal(was.Opened()) ||
				is.Commit != was.Commit {
				t.Errorf("%s: %+v, was %+v", name, is, was)
			}
		})
	}
}

// TestSlowHost: a pass begins no read after its Limit. The next passes read the rest, and a
// read that takes longer than the limit is finished.
func TestSlowHost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t)
		b.follow(12)
		b.refuse(func(string) int {
			time.Sleep(time.Second)
			return 0
		})
		for limit, most := range map[time.Duration]time.Duration{
			10 * time.Second: 14 * time.Second, time.Second: 6 * time.Second,
		} {
			clear(b.memory.rows)
			b.restart()
			b.Limit = limit
			for range 12 {
				began := time.Now()
				b.pass()
				if took := time.Since(began); took > most {
					t.Errorf("limit %v: a pass took %v", limit, took)
				}
			}
			for _, l := range b.memory.links {
				b.want(l, journal.PullOpen, "")
			}
		}
	})
}

// TestPages: the navigation is asked for once, when the pull request is merged; while the host
// does not answer that, it is asked again.
func TestPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, link(1))
		b.hub.files = map[string]string{"site/docs/docs.json": `{"navigation": {"pages": ["a"]}}`}
		b.open()
		b.hub.Change(1, func(p *fake.Pull) { p.Diff = "diff --git a/site/docs/a.mdx b/site/docs/a.mdx\n" })
		b.pass()
		b.act(fake.Merge, 0)
		b.refuse(func(path string) int {
			if strings.Contains(path, "/contents/") {
				return http.StatusBadGateway
			}
			return 0
		})
		b.run(3 * time.Minute)
		if got := b.memory.rows[link(1)]; got.Mapped || got.State != journal.PullMerged ||
			!slices.Equal(got.Pages, []string{"/site/docs/a"}) {
			t.Errorf("%+v", got)
		}
		b.hub.refuse = nil
		b.run(7 * day)
		got := b.want(link(1), journal.PullMerged, "")
		if !got.Final || !got.Mapped || !slices.Equal(got.Pages, []string{"/a"}) {
			t.Errorf("%+v", got)
		}
		if n := b.hub.asked["/repos/acme/docs/contents/site/docs/docs.json"]; n != 1 {
			t.Errorf("docs.json was asked for %d times", n)
		}
	})
}

// TestRefused: a pull request that the host hides is unknown after an hour, asked for daily then, and as before once
// it is there again. Others are read as ever.
func TestRefused(t *testing.T) {
	for code, says := range map[int]string{
		404: "deleted", 410: "deleted", 301: "renamed", 307: "renamed", 403: "read access", 451: "read access",
	} {
		bubble(t, func(t *testing.T) {
			b := newBench(t)
			b.follow(2)
			b.pass()
			b.hub.refuse = func(req *http.Request) (int, map[string]string) {
				if req.URL.Path == pathOfOne {
					return code, map[string]string{"Location": "https://api.github.com/repositories/1/pulls/1"}
				}
				return 0, nil
			}
			b.run(50 * time.Minute)
			b.want(link(1), journal.PullOpen, says)
			b.run(20 * time.Minute)
			if p := b.want(link(1), journal.PullUnknown, says); p.Missing.IsZero() || p.Created.IsZero() {
				t.Errorf("%d: %+v", code, p)
			}
			b.want(link(2), journal.PullOpen, "")
			before := b.hub.asked[pathOfOne]
			b.run(10 * day)
			if n := b.hub.asked[pathOfOne] - before; n < 9 || n > 11 {
				t.Errorf("%d: %d requests in ten days", code, n)
			}
			b.hub.refuse = nil
			b.run(day)
			if p := b.want(link(1), journal.PullOpen, ""); !p.Missing.IsZero() {
				t.Errorf("%d: %+v", code, p)
			}
			if b.hub.asked["/repositories/1/pulls/1"] > 0 {
				t.Error("a redirect was followed")
			}
		})
	}
}

// TestRefusedAfterItsEnd: its end stays known, and the last read is not tried for ever.
func TestRefusedAfterItsEnd(t *testing.T) {
	for _, code := range []int{404, 301, 403, 500, -1} {
		bubble(t, func(t *testing.T) {
			b := newBench(t, link(1))
			b.open()
			b.act(fake.Merge, 0)
			b.pass()
			b.refuse(func(string) int { return code })
			b.run(30 * day)
			got := b.want(link(1), journal.PullMerged, "GitHub")
			if !got.Final || !b.next.IsZero() || len(got.Changed) != 1 {
				t.Errorf("%d: %+v, next %v", code, got, b.next)
			}
		})
	}
}

// TestOtherLinks: what belongs to no configured host is never asked for; another owner's is,
// and is not found.
func TestOtherLinks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		foreign := []string{"https://bitbucket.org/a/b/pull-requests/1", "https://code.example/a/b/pull/1",
			"http://github.com/acme/docs/pull/1", "nonsense", "https://github.com/acme/docs/issues/1"}
		b := newBench(t, append(foreign, "https://github.com/other/docs/pull/1")...)
		b.pass()
		writes := b.memory.writes
		b.run(10 * day)
		for _, l := range foreign {
			if p := b.want(l, journal.PullUnknown, "no host"); p.Host != "" || !p.Next.IsZero() {
				t.Errorf("%+v", p)
			}
		}
		b.want("https://github.com/other/docs/pull/1", journal.PullUnknown, "other/docs")
		if len(b.hub.asked) != 1 || b.memory.writes > writes+20 {
			t.Errorf("asked %v, %d writes", b.hub.asked, b.memory.writes)
		}
	})
}

// TestToken: without a token nothing is asked and all is unknown; with one that expired the
// last known state stays. Both end by themselves.
func TestToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t)
		b.follow(2)
		b.hub.Token = "good"
		both := func(state journal.PullState, problem string) {
			t.Helper()
			b.want(link(1), state, problem)
			b.want(link(2), state, problem)
		}
		b.token = ""
		if n := b.asks(func() { b.run(day) }); n != 0 {
			t.Errorf("%d requests without a token", n)
		}
		both(journal.PullUnknown, "DOCGAUGE_GITHUB_TOKEN is not set")
		if b.memory.writes > 2 {
			t.Errorf("%d writes of nothing new", b.memory.writes)
		}
		b.token = "good"
		b.run(11 * time.Minute)
		both(journal.PullOpen, "")
		b.token = "old"
		if n := b.asks(func() { b.run(day) }); n < 100 || n > 6*24+1 {
			t.Errorf("%d requests in a day with an expired token", n)
		}
		both(journal.PullOpen, "expired")
		b.token = "good"
		b.restart()
		b.pass()
		both(journal.PullOpen, "")
		b.token = ""
		b.run(2 * hour)
		both(journal.PullUnknown, "is not set")
	})
}

// TestLimits: a host that has enough is left alone until it says, or longer and longer, also
// by the next process.
func TestLimits(t *testing.T) {
	reset := func() map[string]string {
		return map[string]string{"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "0",
			"X-RateLimit-Reset": fmt.Sprint(time.Now().Add(40 * time.Minute).Unix())}
	}
	retry := func() map[string]string { return map[string]string{"Retry-After": "600"} }
	none := func() map[string]string { return nil }
	for _, tc := range []struct {
		name     string
		code     int
		header   func() map[string]string
		requests int // in four hours of it, at most
		restart  int // of the next process at once
	}{
		{"primary", 403, reset, 7, 0},
		{"primary, as 429", 429, reset, 7, 0},
		{"secondary", 403, retry, 11, 0},
		{"secondary, without a time", 429, none, 10, 0},
		{"broken", 503, none, 10, 1},
		{"unreachable", -1, none, 10, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t)
				b.follow(20)
				b.run(5 * time.Minute)
				b.hub.refuse = func(*http.Request) (int, map[string]string) { return tc.code, tc.header() }
				b.run(10 * time.Minute)
				b.want(link(20), journal.PullOpen, "GitHub")
				if n := b.asks(func() { b.run(4 * hour) }); n < 4 || n > tc.requests {
					t.Errorf("%d requests in four hours", n)
				}
				b.restart()
				if n := b.asks(b.pass); n != tc.restart {
					t.Errorf("the next process made %d requests at once", n)
				}
				b.hub.refuse = nil
				b.run(2 * hour)
				for i := range 20 {
					b.want(link(i+1), journal.PullOpen, "")
				}
			})
		})
	}
}

// TestOneFails: one that fails for ever does not keep the others from being read.
func TestOneFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t)
		b.follow(3)
		b.refuse(func(path string) int { return map[string]int{pathOfOne: 500}[path] })
		b.run(30 * time.Minute)
		b.want(link(1), journal.PullUnknown, "500")
		for i := 2; i <= 3; i++ {
			if p := b.want(link(i), journal.PullOpen, ""); time.Since(p.Answered) > 5*time.Minute {
				t.Errorf("%d was read %v ago", i, time.Since(p.Answered))
			}
		}
	})
}

// TestThousand: a thousand open pull requests are followed within GitHub's quota of 5000 requests
// an hour, even if nothing were free of it, and none is forgotten: of all ages up to 69 days, and
// all of them new, which is more than the quota allows.
func TestThousand(t *testing.T) {
	for _, aged := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			b := newBench(t)
			b.follow(1000)
			hours := 3
			for i := range 1000 {
				if aged {
					b.hub.Change(i+1, func(p *fake.Pull) { p.OpenedAt = p.OpenedAt.Add(-time.Duration(i*i) * time.Minute / 10) })
				}
			}
			if aged && !testing.Short() {
				hours = 24
			}
			for h := range hours {
				if n := b.asks(func() { b.run(hour) }); n > 3700 || n == 0 {
					t.Errorf("%d requests in hour %d", n, h)
				}
			}
			if cost := b.hub.count - b.hub.same; aged && cost > 5*1000 {
				t.Errorf("%d requests of %d cost something", cost, b.hub.count)
			}
			for i := range 1000 {
				p := b.want(link(i+1), journal.PullOpen, "")
				if age := time.Since(p.Answered); age > day || aged && i < 100 && age > hour ||
					!aged && age > 2*hour {
					t.Errorf("%d was read %v ago", i+1, age)
				}
			}
		})
	}
}

// TestKilled: wherever a process dies, at each write and each request in turn, with the
// write made or not, the next one comes to the same end; a lost state too.
func TestKilled(t *testing.T) {
	for _, kind := range []string{"before a write", "after a write", "at a request", "lost state"} {
		for step := range 12 {
			bubble(t, func(t *testing.T) {
				b := newBench(t, link(1), link(2), "https://code.example/a/b/pull/1")
				b.open()
				b.open()
				ctx, cancel := context.WithCancel(t.Context())
				for i := range 12 {
					if i == 6 {
						b.act(fake.Merge, 12*time.Minute)
					}
					if i == step {
						b.memory.before, b.memory.after = kind == "before a write", kind == "after a write"
						switch kind {
						case "lost state":
							clear(b.memory.rows)
						case "at a request":
							requests := 0
							b.refuse(func(string) int {
								if requests++; requests > step%3 {
									cancel()
									return -1
								}
								return 0
							})
						}
					}
					next, err := b.Pass(ctx)
					if err != nil && !errors.Is(err, errStore) && !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					if errors.Is(err, errStore) && !next.After(time.Now()) {
						t.Error("a failing store is tried again at once")
					}
					if err != nil || i == step { // a new process
						b.memory.before, b.memory.after, b.hub.refuse = false, false, nil
						cancel()
						ctx, cancel = context.WithCancel(t.Context())
						b.restart()
					}
					time.Sleep(2 * time.Minute)
				}
				defer cancel()
				b.run(3 * day)
				p := b.want(link(1), journal.PullMerged, "")
				b.want(link(2), journal.PullOpen, "")
				b.want("https://code.example/a/b/pull/1", journal.PullUnknown, "no host")
				if !p.Final || len(p.Changed) != 1 || p.Project != "prj_a" {
					t.Errorf("%s %d: %+v", kind, step, p)
				}
			})
		}
	}
}

// TestClockSetBack: reads that a wrong clock put far off are made again.
func TestClockSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		b.memory.rows[link(1)] = journal.PullRequest{Link: link(1), State: journal.PullOpen,
			Next: time.Now().Add(1000 * day)}
		b.pass()
		if p := b.want(link(1), journal.PullOpen, ""); p.Answered.IsZero() {
			t.Errorf("%+v", p)
		}
	})
	bubble(t, func(t *testing.T) { // a pause of the host
		b := newBench(t, link(1))
		b.open()
		ahead := 1000 * day
		b.Follower = pulls.New(b.memory, b.client(), func() time.Time { return time.Now().Add(ahead) })
		b.refuse(func(string) int { return -1 })
		b.pass()
		ahead = 0
		b.hub.refuse = nil
		b.pass()
		b.want(link(1), journal.PullOpen, "")
	})
	bubble(t, func(t *testing.T) { // when it was hidden first
		b := newBench(t)
		b.open()
		b.memory.rows[link(1)] = journal.PullRequest{Link: link(1), State: journal.PullOpen, Next: time.Now(),
			Missing: time.Now().Add(1000 * day)}
		b.refuse(func(string) int { return 404 })
		b.pass()
		b.run(2 * time.Hour)
		b.want(link(1), journal.PullUnknown, "deleted")
	})
}

// TestState: the state's database is such a store.
func TestState(t *testing.T) {
	db, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Apply(t.Context(), journal.Change{At: time.Now(), Job: journal.Job{
		Prompt: "p", Try: 1, Project: "prj_a", State: journal.Completed, PRLink: link(1)}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.open()
	b.Follower = pulls.New(db, b.client(), time.Now)
	b.pass()
	all, err := db.PullRequests(t.Context())
	if err != nil || len(all) != 1 || all[0].State != journal.PullOpen || all[0].Project != "prj_a" ||
		!all[0].Next.Equal(b.next) {
		t.Errorf("%+v, %v, next %v", all, err, b.next)
	}
}
