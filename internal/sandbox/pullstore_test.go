package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/site/runner"
)

var pullNoon = time.Date(2026, 10, 14, 12, 0, 0, 0, time.UTC)

func local(t *testing.T, dir string) *pullStore {
	t.Helper()
	l, err := openPulls(dir, 0, Pulls{}, func() time.Time { return pullNoon })
	check(t, err)
	return l
}

// proposal is a change of a job on its way into a pull request.
type proposal struct {
	job, diff, head string
	messages        []string
}

func (l *pullStore) propose(t *testing.T, p proposal) (link string) {
	t.Helper()
	if p.head == "" {
		p.head = "h" + p.job
	}
	link, err := l.Propose(t.Context(),
		runner.Job{ID: p.job, Project: "prj_a", Prompts: p.messages[:1],
			Source: runner.Source{Repository: "docs", Ref: "main"}},
		runner.Change{Branch: "docgauge/" + p.job, Base: "b000", Head: p.head, Messages: p.messages}, p.diff)
	check(t, err)
	return link
}

var one = []string{"one"}

func TestLocalKeepsOnePullRequestForEachBranch(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "pulls")} {
		l := local(t, dir)
		var links []string
		for _, p := range []proposal{
			{job: "a", diff: "1", messages: one}, {job: "b", diff: "2", messages: []string{"two"}},
			{job: "a", diff: "3", messages: []string{"one", "more"}},
		} {
			links = append(links, l.propose(t, p))
		}
		if diff := cmp.Diff([]string{"/pr/1", "/pr/2", "/pr/1"}, links); diff != "" {
			t.Error(diff)
		}
		if dir != "" {
			l = local(t, dir)
		}
		got, _ := l.Pull("1")
		want := fake.Pull{
			Number: 1, Project: "prj_a", Repository: "docs", Base: "main", BaseCommit: "b000", Branch: "docgauge/a", Head: "ha",
			Title: "one", Body: "Opened by an agent job of the docgauge sandbox.", Messages: []string{"one", "more"}, Diff: "3",
			OpenedAt: pullNoon, UpdatedAt: pullNoon, History: []fake.Event{{At: pullNoon, Action: fake.PassChecks}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if all := l.Pulls(); len(all) != 2 || all[0].Number != 1 || all[1].Branch != "docgauge/b" {
			t.Errorf("all: %+v", all)
		}
		if link := l.propose(t, proposal{job: "c", messages: one}); link != "/pr/3" {
			t.Errorf("next: %s", link)
		}
	}
}

func TestLocalFilesAreChecked(t *testing.T) {
	for text, want := range map[string]string{"{": "JSON", `{"number":2}`: "number 2"} {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "1.json"), []byte(text), 0o600))
		if _, err := openPulls(dir, 0, Pulls{}, time.Now); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "1.json") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPullsThatAreNotThere(t *testing.T) {
	l := local(t, "")
	l.propose(t, proposal{job: "a", messages: one})
	for number, want := range map[string]bool{
		"1": true, "": false, "0": false, "2": false, "01": false, "-1": false, "+1": false, "1/": false,
		"99999999999999999999": false,
	} {
		if _, ok := l.Pull(number); ok != want {
			t.Errorf("%q: %t, want %t", number, ok, want)
		}
	}
	if path := (fake.Pull{Number: 1, Repository: "/home/me/My docs"}).WebPath(); path != "/sandbox/My-docs/pull/1" {
		t.Error(path)
	}
}
