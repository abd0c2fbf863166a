package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// planned returns pull requests with a plan, and what moves their clock.
func planned(t *testing.T, dir string, p Pulls) (*pullStore, func(time.Duration)) {
	t.Helper()
	now := pullNoon
	l, err := openPulls(dir, 0, p, func() time.Time { return now })
	check(t, err)
	return l, func(after time.Duration) { now = pullNoon.Add(after) }
}

// stands is the state of a pull request in a line.
func stands(l *pullStore, number string) string {
	pr, _ := l.Pull(number)
	return strings.Join(strings.Fields(fmt.Sprint(pr.State(), " ", pr.Review(), " ", pr.Checks())), " ")
}

// TestActions goes through every transition, and tries what each state refuses. What
// was written is the same for the next process.
func TestActions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pulls")
	l := local(t, dir)
	l.propose(t, proposal{job: "a", messages: one})
	all := []fake.Action{fake.Ready, fake.ConvertToDraft, fake.Approve, fake.RequestChanges, fake.PassChecks, fake.FailChecks, fake.Merge,
		fake.Close, fake.Reopen}
	for _, step := range []struct {
		do      fake.Action
		want    string
		refuses string // of all other actions
	}{
		{"", "open pass_checks", "ready pass_checks reopen"},
		{fake.ConvertToDraft, "draft pass_checks", "draft pass_checks merge reopen"},
		{fake.Approve, "draft approve pass_checks", "draft approve pass_checks merge reopen"},
		{fake.Ready, "open approve pass_checks", "ready approve pass_checks reopen"},
		{fake.FailChecks, "open approve fail_checks", "ready approve fail_checks reopen"},
		{fake.RequestChanges, "open request_changes fail_checks", "ready request_changes fail_checks reopen"},
		{fake.Close, "closed request_changes fail_checks", "ready draft approve request_changes pass_checks fail_checks " +
			"merge close"},
		{fake.Reopen, "open request_changes fail_checks", "ready request_changes fail_checks reopen"},
		{fake.ConvertToDraft, "draft request_changes fail_checks", "draft request_changes fail_checks merge reopen"},
		{fake.Close, "closed request_changes fail_checks", "ready draft approve request_changes pass_checks fail_checks " +
			"merge close"},
		{fake.Reopen, "draft request_changes fail_checks", "draft request_changes fail_checks merge reopen"},
		{fake.Ready, "open request_changes fail_checks", "ready request_changes fail_checks reopen"},
		{fake.Merge, "merged request_changes fail_checks", "ready draft approve request_changes pass_checks fail_checks " +
			"merge close reopen"},
	} {
		if step.do != "" {
			if err := l.Act(1, step.do); err != nil {
				t.Fatalf("%s: %v", step.do, err)
			}
			l = local(t, dir)
		}
		if got := stands(l, "1"); got != step.want {
			t.Errorf("after %q: %s, want %s", step.do, got, step.want)
		}
		pr, _ := l.Pull("1")
		var refuses []string
		for _, a := range all {
			allowed := false
			for _, b := range pr.Allows() {
				allowed = allowed || a == b
			}
			if !allowed {
				refuses = append(refuses, string(a))
				if err := l.Act(1, a); !errors.Is(err, fake.ErrNotAllowed) {
					t.Errorf("after %q, %s: %v", step.do, a, err)
				}
			}
		}
		if got := strings.Join(refuses, " "); got != step.refuses {
			t.Errorf("after %q: refuses %s, want %s", step.do, got, step.refuses)
		}
	}
	if err := l.Act(1, "dance"); !errors.Is(err, fake.ErrNotAllowed) {
		t.Error(err)
	}
}

// TestPlan: planned events happen at their time, even if no sandbox runs then, and
// nothing is written for it.
func TestPlan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pulls")
	plan := Pulls{MergeShare: 1, EndAfter: time.Hour, ReviewAfter: 20 * time.Minute, DraftFor: 10 * time.Minute}
	l, _ := planned(t, dir, plan)
	l.propose(t, proposal{job: "a", messages: one})
	before, err := os.ReadFile(filepath.Join(dir, "1.json"))
	check(t, err)
	l, at := planned(t, dir, Pulls{CloseShare: 1}) // of the next process
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "draft pass_checks"}, {10*time.Minute - 1, "draft pass_checks"}, {10 * time.Minute, "open pass_checks"},
		{30 * time.Minute, "open approve pass_checks"}, {70*time.Minute - 1, "open approve pass_checks"},
		{70 * time.Minute, "merged approve pass_checks"},
	} {
		at(step.after)
		if got := stands(l, "1"); got != step.want {
			t.Errorf("after %s: %s, want %s", step.after, got, step.want)
		}
	}
	pr, _ := l.Pull("1")
	if merged := pr.Last(fake.Merge).At; !merged.Equal(pullNoon.Add(70*time.Minute)) || !pr.UpdatedAt.Equal(merged) ||
		!pr.OpenedAt.Equal(pullNoon) {
		t.Errorf("merged %s, updated %s", merged, pr.UpdatedAt)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "1.json")); err != nil || string(after) != string(before) {
		t.Errorf("%v, written: %s", err, after)
	}
	if l.propose(t, proposal{job: "b", messages: one}); stands(l, "2") != "closed pass_checks" {
		t.Errorf("with another plan: %s", stands(l, "2"))
	}
}

// TestHandsEndAPlan: planned events do not happen after an action by hand.
func TestHandsEndAPlan(t *testing.T) {
	l, at := planned(t, "", Pulls{MergeShare: 1, EndAfter: time.Hour, ReviewAfter: time.Minute})
	l.propose(t, proposal{job: "a", messages: one})
	at(2 * time.Minute)
	check(t, l.Act(1, fake.Close))
	at(24 * time.Hour)
	if got := stands(l, "1"); got != "closed approve pass_checks" {
		t.Error(got)
	}
}

// TestFates: the shares are kept, and the seed decides.
func TestFates(t *testing.T) {
	fates := func(seed uint64) (merged, closed int, line string) {
		p := pullStore{seed: seed, plan: Pulls{MergeShare: 0.6, CloseShare: 0.3}}
		for number := range 4000 {
			events := p.events(number+1, pullNoon)
			switch events[len(events)-1].Action {
			case fake.Merge:
				merged++
				line += "m"
			case fake.Close:
				closed++
				line += "c"
			default:
				line += "-"
			}
		}
		return merged, closed, line
	}
	seen := map[string]bool{}
	for seed := range uint64(5) {
		merged, closed, line := fates(seed)
		if math.Abs(float64(merged)-2400) > 120 || math.Abs(float64(closed)-1200) > 120 {
			t.Errorf("seed %d: %d merged, %d closed of 4000", seed, merged, closed)
		}
		if _, _, again := fates(seed); again != line || seen[line] {
			t.Errorf("seed %d: not its own fates", seed)
		}
		seen[line] = true
	}
}

// TestDatedBack: a merge takes its whole pull request back, and only then.
func TestDatedBack(t *testing.T) {
	plan := Pulls{MergeShare: 1, EndAfter: time.Hour, ReviewAfter: time.Minute, DaysAgo: 20}
	l, at := planned(t, "", plan)
	l.propose(t, proposal{job: "a", messages: one})
	at(time.Hour - 1)
	if pr, _ := l.Pull("1"); !pr.OpenedAt.Equal(pullNoon) {
		t.Errorf("before: opened %s", pr.OpenedAt)
	}
	at(time.Hour)
	back := pullNoon.AddDate(0, 0, -20)
	pr, _ := l.Pull("1")
	want := []fake.Event{{At: back, Action: fake.PassChecks}, {At: back.Add(time.Minute), Action: fake.Approve},
		{At: back.Add(time.Hour), Action: fake.Merge, DaysAgo: 20}}
	if diff := cmp.Diff(want, pr.History); diff != "" || !pr.OpenedAt.Equal(back) ||
		!pr.UpdatedAt.Equal(back.Add(time.Hour)) {
		t.Errorf("opened %s, updated %s, %s", pr.OpenedAt, pr.UpdatedAt, diff)
	}
	if l, _ = planned(t, "", Pulls{DaysAgo: 3}); l.propose(t, proposal{job: "a", messages: one}) == "" ||
		l.Act(1, fake.Merge) != nil {
		t.Fatal("not merged")
	}
	if pr, _ := l.Pull("1"); !pr.Last(fake.Merge).At.Equal(pullNoon.AddDate(0, 0, -3)) {
		t.Errorf("by hand: %+v", pr.History)
	}
}

// TestPushes: more work goes to the open pull request; after its end, to a new one. The
// same work twice, as after a crash, never makes two.
func TestPushes(t *testing.T) {
	l := local(t, "")
	first := proposal{job: "a", messages: one}
	more := proposal{job: "a", messages: one, head: "hmore"}
	for _, step := range []struct {
		propose bool // more work, or else the first
		act     fake.Action
		want    string
	}{
		{false, "", "/pr/1"}, {false, fake.FailChecks, "/pr/1"}, {true, "", "/pr/1"}, {true, fake.Merge, "/pr/1"},
		{true, "", "/pr/1"}, {false, "", "/pr/2"},
	} {
		p := first
		if step.propose {
			p = more
		}
		if link := l.propose(t, p); link != step.want {
			t.Errorf("%+v: %s", step, link)
		}
		if step.act != "" {
			check(t, l.Act(1, step.act))
		}
	}
	if got := stands(l, "1"); got != "merged pass_checks" {
		t.Errorf("checks after a push: %s", got)
	}
}

// TestFullDisk: an event, and a pull request, that could not be written did not happen.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pulls")
	l := local(t, dir)
	l.propose(t, proposal{job: "a", messages: one})
	check(t, errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)))
	if err := l.Act(1, fake.Merge); err == nil || stands(l, "1") != "open pass_checks" {
		t.Errorf("%v, %s", err, stands(l, "1"))
	}
	_, err := l.Propose(t.Context(), runner.Job{Prompts: one}, runner.Change{Branch: "b"}, "")
	if _, ok := l.Pull("2"); err == nil || ok {
		t.Errorf("second: %t, %v", ok, err)
	}
}

func TestPlansAreChecked(t *testing.T) {
	for _, p := range []Pulls{
		{MergeShare: -0.1}, {CloseShare: 1.1}, {MergeShare: math.NaN()}, {MergeShare: 0.6, CloseShare: 0.6},
		{DaysAgo: -1}, {DaysAgo: maxDays + 1},
	} {
		if _, err := New(Config{Agent: Agent{Pulls: p}}); err == nil {
			t.Errorf("%+v: no error", p)
		}
	}
	_, err := New(Config{Agent: Agent{Pulls: Pulls{MergeShare: 0.6, CloseShare: 0.4, DaysAgo: maxDays}}})
	check(t, err)
}
