package sandbox

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/journal"
)

// TestClientOfDocgauge: docgauge reads the events of a pull request here, by the link of the
// job and the URL that the sandbox prints.
func TestClientOfDocgauge(t *testing.T) {
	s := newTest(t, Config{Pages: 40, Agent: Agent{Pulls: Pulls{Token: "ghp_x"}}})
	server := start(t, s)
	s.config.Agent.PublicURL = server.URL
	link := *settled(t, s, createJob(t, s, "x [sandbox:page=/quickstart]").ID).PRLink
	set := map[string]string{}
	for _, line := range s.Exports(server.URL) {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "export DOCGAUGE_"), "=")
		set[name] = value
	}
	client, err := codehost.New(codehost.Options{
		GitHubURL: set["GITHUB_URL"], GitHubToken: func() (string, error) { return set["GITHUB_TOKEN"], nil },
	})
	check(t, err)
	if host, repository, number, ok := client.Parse(link); host != "github" ||
		repository != "docgauge/sandbox" || number != 1 || !ok {
		t.Fatalf("%s: %s %s %d", link, host, repository, number)
	}
	pr := journal.PullRequest{Link: link}
	at := noon.Truncate(time.Second)
	type seen struct {
		State                       journal.PullState
		Review, Checks              string
		Created, Closed, Merged     time.Time
		Reviewed, Reopened          bool
		Files, Additions, Deletions int
		Changed                     string
	}
	for _, step := range []struct {
		action string
		want   seen
	}{
		{"", seen{State: journal.PullOpen, Review: journal.ReviewRequired, Checks: journal.ChecksSuccess}},
		{"draft", seen{State: journal.PullDraft, Checks: journal.ChecksSuccess}},
		{"ready", seen{State: journal.PullOpen, Review: journal.ReviewRequired, Checks: journal.ChecksSuccess}},
		{"request_changes", seen{State: journal.PullOpen, Review: journal.ReviewChanges,
			Checks: journal.ChecksSuccess, Reviewed: true}},
		{"fail_checks", seen{State: journal.PullOpen, Review: journal.ReviewChanges,
			Checks: journal.ChecksFailure, Reviewed: true}},
		{"close", seen{State: journal.PullClosed, Review: journal.ReviewChanges, Checks: journal.ChecksFailure,
			Reviewed: true, Closed: at}},
		{"reopen", seen{State: journal.PullOpen, Review: journal.ReviewChanges, Checks: journal.ChecksFailure,
			Reviewed: true, Reopened: true}},
		{"approve", seen{State: journal.PullOpen, Review: journal.ReviewApproved, Checks: journal.ChecksFailure,
			Reviewed: true, Reopened: true}},
		{"merge", seen{
			State: journal.PullMerged, Review: journal.ReviewApproved, Checks: journal.ChecksFailure, Reviewed: true,
			Reopened: true, Merged: at,
			Changed: "quickstart.mdx",
		}},
	} {
		if step.action != "" {
			if w := press(s, "/docgauge/sandbox/pull/1", step.action); w.Code != http.StatusSeeOther {
				t.Fatalf("%s: %d", step.action, w.Code)
			}
		}
		if pr, err = client.Read(t.Context(), pr); err != nil {
			t.Fatalf("%s: %v", step.action, err)
		}
		step.want.Created, step.want.Files, step.want.Additions = at, 1, 1
		got := seen{
			pr.State, pr.Review, pr.Checks, pr.Created, pr.Closed, pr.Merged,
			!pr.FirstReview.IsZero(), !pr.Reopened.IsZero(),
			pr.Files, pr.Additions, pr.Deletions, strings.Join(pr.Changed, " "),
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.action, diff)
		}
	}
	for file, want := range map[string]string{
		navigationFile: `"quickstart"`, "quickstart.mdx": pretendedHead("quickstart.mdx") + "\n",
		"guides/none.mdx": "", "../" + navigationFile: "",
	} {
		if text, err := client.File(t.Context(), pr, file); (err == nil) != (want != "") ||
			!strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v", file, text, err)
		}
	}
}
