package codehost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

var noon = time.Date(2026, 10, 14, 12, 0, 0, 0, time.UTC)

func local(t *testing.T, dir string) *Local {
	t.Helper()
	l, err := OpenLocal(dir, Plan{}, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func proposal(job, diff string, messages ...string) agent.Proposal {
	return agent.Proposal{
		Change: agent.Change{Branch: "docgauge/" + job, Base: "b000", Head: "h" + job, Messages: messages},
		Job:    job, Project: "prj_a", Title: messages[0], Source: agent.Source{Repository: "docs", Ref: "main"}, Diff: diff,
	}
}

func propose(t *testing.T, h agent.Host, p agent.Proposal) string {
	t.Helper()
	link, err := h.Propose(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestLocalKeepsOnePullRequestForEachBranch(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "pulls")} {
		l := local(t, dir)
		var links []string
		for _, p := range []agent.Proposal{proposal("a", "1", "one"), proposal("b", "2", "two"), proposal("a", "3", "one", "more")} {
			links = append(links, propose(t, l, p))
		}
		if diff := cmp.Diff([]string{"/pr/1", "/pr/2", "/pr/1"}, links); diff != "" {
			t.Error(diff)
		}
		if dir != "" {
			l = local(t, dir)
		}
		got, _ := l.Pull("1")
		want := PullRequest{1, "prj_a", "docs", "main", "b000", "docgauge/a", "ha", "one", []string{"one", "more"}, "3", noon, noon, []Event{{At: noon, Action: PassChecks}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if all := l.Pulls(); len(all) != 2 || all[0].Number != 1 || all[1].Branch != "docgauge/b" {
			t.Errorf("all: %+v", all)
		}
		if link := propose(t, l, proposal("c", "4", "three")); link != "/pr/3" {
			t.Errorf("next: %s", link)
		}
	}
}

func TestLocalFilesAreChecked(t *testing.T) {
	for text, want := range map[string]string{"{": "as JSON", `{"number":2}`: "number 2"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLocal(dir, Plan{}, time.Now); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "1.json") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A pull request that could not be written is not there.
func TestLocalFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pulls")
	l := local(t, dir)
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Propose(t.Context(), proposal("a", "1", "one")); err == nil {
		t.Error("no error")
	}
	if _, ok := l.Pull("1"); ok {
		t.Error("there all the same")
	}
}

func TestPullsThatAreNotThere(t *testing.T) {
	l := local(t, "")
	propose(t, l, proposal("a", "", "one"))
	for number, want := range map[string]bool{
		"1": true, "": false, "0": false, "2": false, "01": false, "-1": false, "+1": false, "1/": false, "99999999999999999999": false,
	} {
		if _, ok := l.Pull(number); ok != want {
			t.Errorf("%q: %t, want %t", number, ok, want)
		}
	}
}
