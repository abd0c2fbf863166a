package githubapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// user is somebody on GitHub. There are two here.
type user struct {
	Login string `json:"login"`
	ID    int    `json:"id"`
	Type  string `json:"type"`
}

var (
	bot      = user{"docgauge-agent[bot]", 1, "Bot"}
	reviewer = user{"sandbox-reviewer", 2, "User"}
)

type repository struct {
	ID            int    `json:"id"`
	Name          string `json:"name"`
	FullName      string `json:"full_name"`
	Owner         user   `json:"owner"`
	Private       bool   `json:"private"`
	HTMLURL       string `json:"html_url"`
	URL           string `json:"url"`
	DefaultBranch string `json:"default_branch"`
}

// api is the URL of something of the repository of q.
func (q *question) api(format string, args ...any) string {
	return q.web + Path + "/repos/" + q.slug + fmt.Sprintf(format, args...)
}

func (a *API) repository(q *question) (any, error) {
	if len(q.all) == 0 {
		return nil, errNotFound
	}
	return q.repository(), nil
}

func (q *question) repository() repository {
	pr := q.all[0]
	owner, name, _ := strings.Cut(pr.Slug(), "/")
	return repository{
		ID: 1, Name: name, FullName: pr.Slug(), Owner: user{owner, 3, "Organization"}, Private: false,
		HTMLURL: q.web + "/" + pr.Slug(), URL: q.api(""), DefaultBranch: pr.Base,
	}
}

// reference is a branch of a pull request.
type reference struct {
	Label string     `json:"label"`
	Ref   string     `json:"ref"`
	SHA   string     `json:"sha"`
	User  user       `json:"user"`
	Repo  repository `json:"repo"`
}

// pullRequest is what lists of pull requests have; detail is the rest.
type pullRequest struct {
	ID             int        `json:"id"`
	NodeID         string     `json:"node_id"`
	Number         int        `json:"number"`
	URL            string     `json:"url"`
	HTMLURL        string     `json:"html_url"`
	State          string     `json:"state"` // open or closed
	Locked         bool       `json:"locked"`
	Draft          bool       `json:"draft"`
	Title          string     `json:"title"`
	Body           string     `json:"body"`
	User           user       `json:"user"`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
	ClosedAt       *time.Time `json:"closed_at"`
	MergedAt       *time.Time `json:"merged_at"`
	MergeCommitSHA *string    `json:"merge_commit_sha"`
	Head           reference  `json:"head"`
	Base           reference  `json:"base"`
}

type detail struct {
	pullRequest
	Merged         bool   `json:"merged"`
	Mergeable      *bool  `json:"mergeable"`
	MergeableState string `json:"mergeable_state"`
	MergedBy       *user  `json:"merged_by"`
	Comments       int    `json:"comments"`
	ReviewComments int    `json:"review_comments"`
	Commits        int    `json:"commits"`
	Additions      int    `json:"additions"`
	Deletions      int    `json:"deletions"`
	ChangedFiles   int    `json:"changed_files"`
}

// second is t as GitHub writes it.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func (q *question) newPullRequest(pr codehost.PullRequest) pullRequest {
	repo := q.repository()
	branch := func(name, commit string) reference {
		return reference{repo.Owner.Login + ":" + name, name, commit, repo.Owner, repo}
	}
	o := pullRequest{
		ID: pr.Number, NodeID: fmt.Sprint("PR_", pr.Number), Number: pr.Number, URL: q.api("/pulls/%d", pr.Number),
		HTMLURL: q.web + pr.WebPath(), State: "open", Draft: pr.IsDraft(), Title: pr.Title,
		Body: "Opened by an agent job of the docgauge sandbox.", User: bot,
		CreatedAt: second(pr.OpenedAt), UpdatedAt: second(pr.UpdatedAt),
		Head: branch(pr.Branch, pr.Head), Base: branch(pr.Base, pr.BaseCommit),
	}
	switch pr.State() {
	case codehost.Merged:
		at := second(pr.Last(codehost.Merge).At)
		// The sandbox merges without a commit of its own.
		o.State, o.ClosedAt, o.MergedAt, o.MergeCommitSHA = "closed", &at, &at, &pr.Head
	case codehost.Closed:
		at := second(pr.Last(codehost.Close).At)
		o.State, o.ClosedAt = "closed", &at
	}
	return o
}

func (a *API) pulls(q *question) (any, error) {
	if len(q.all) == 0 {
		return nil, errNotFound
	}
	query := q.URL.Query()
	state, head := query.Get("state"), query.Get("head")
	list := []pullRequest{}
	for i := range q.all {
		o := q.newPullRequest(q.all[len(q.all)-1-i]) // the newest first
		if (state == "all" || o.State == state || state == "" && o.State == "open") && (head == "" || head == o.Head.Label) {
			list = append(list, o)
		}
	}
	return page(q, list), nil
}

func (a *API) pull(q *question) (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	o := detail{pullRequest: q.newPullRequest(pr), Commits: len(pr.Messages), MergeableState: "clean"}
	if pr.State() == codehost.Merged {
		o.Merged, o.MergedBy, o.MergeableState = true, &reviewer, "unknown"
	} else {
		yes := true
		o.Mergeable = &yes
	}
	for _, f := range codehost.ParseDiff(pr.Diff) {
		o.ChangedFiles++
		o.Additions += f.Added
		o.Deletions += f.Removed
	}
	return o, nil
}

type review struct {
	ID          int       `json:"id"`
	User        user      `json:"user"`
	Body        string    `json:"body"`
	State       string    `json:"state"`
	CommitID    string    `json:"commit_id"`
	HTMLURL     string    `json:"html_url"`
	SubmittedAt time.Time `json:"submitted_at"`
}

// reviewStates are GitHub's words for a review.
var reviewStates = map[codehost.Action]string{codehost.Approve: "APPROVED", codehost.RequestChanges: "CHANGES_REQUESTED"}

func (a *API) reviews(q *question) (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	list := []review{}
	for i, e := range pr.History {
		if state := reviewStates[e.Action]; state != "" {
			list = append(list, review{
				ID: pr.Number*1000 + i, User: reviewer, State: state, CommitID: pr.Head, HTMLURL: q.web + pr.WebPath(), SubmittedAt: second(e.At),
			})
		}
	}
	return page(q, list), nil
}

type file struct {
	SHA       string `json:"sha"`
	Filename  string `json:"filename"`
	Former    string `json:"previous_filename,omitempty"`
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Changes   int    `json:"changes"`
	Patch     string `json:"patch,omitempty"`
}

func (a *API) files(q *question) (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	list := []file{}
	for _, f := range codehost.ParseDiff(pr.Diff) {
		var lines []string
		for _, l := range f.Lines {
			lines = append(lines, l.Text)
		}
		list = append(list, file{
			pr.Head, f.Name, f.Former, f.Status, f.Added, f.Removed, f.Added + f.Removed, strings.Join(lines, "\n"),
		})
	}
	return page(q, list), nil
}

// event is an event of an issue. The timeline has the reviews too.
type event struct {
	ID          int        `json:"id,omitempty"`
	Event       string     `json:"event"`
	Actor       *user      `json:"actor,omitempty"`
	CommitID    *string    `json:"commit_id,omitempty"`
	CreatedAt   *time.Time `json:"created_at,omitempty"`
	State       string     `json:"state,omitempty"` // of a review
	User        *user      `json:"user,omitempty"`
	SubmittedAt *time.Time `json:"submitted_at,omitempty"`
}

// issueEvents are GitHub's words for what happens to a pull request.
var issueEvents = map[codehost.Action]string{
	codehost.Ready: "ready_for_review", codehost.Draft: "convert_to_draft", codehost.Merge: "merged",
	codehost.Close: "closed", codehost.Reopen: "reopened",
}

func (a *API) events(q *question) (any, error)   { return q.history(false) }
func (a *API) timeline(q *question) (any, error) { return q.history(true) }

func (q *question) history(reviews bool) (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	list := []event{}
	for i, e := range pr.History {
		at, id := second(e.At), pr.Number*1000+i
		if name := issueEvents[e.Action]; name != "" && !e.At.Equal(pr.OpenedAt) { // nobody made what was opened as one a draft
			o := event{ID: id, Event: name, Actor: &reviewer, CreatedAt: &at}
			if e.Action == codehost.Merge {
				o.CommitID = &pr.Head
			}
			list = append(list, o)
			if e.Action == codehost.Merge { // GitHub has both
				list = append(list, event{ID: id, Event: "closed", Actor: &reviewer, CreatedAt: &at})
			}
		} else if state := reviewStates[e.Action]; state != "" && reviews {
			list = append(list, event{ID: id, Event: "reviewed", State: strings.ToLower(state), User: &reviewer, SubmittedAt: &at})
		}
	}
	return page(q, list), nil
}

// conclusions are GitHub's words for how checks ended.
var conclusions = map[codehost.Action]string{codehost.PassChecks: "success", codehost.FailChecks: "failure"}

type checkRun struct {
	ID          int        `json:"id"`
	Name        string     `json:"name"`
	HeadSHA     string     `json:"head_sha"`
	Status      string     `json:"status"`
	Conclusion  string     `json:"conclusion"`
	StartedAt   time.Time  `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
	HTMLURL     string     `json:"html_url"`
}

// checks returns the check of a pull request, if it has one; its commits before the
// newest have none.
func (q *question) checks() (runs []checkRun, err error) {
	commit := q.PathValue("commit")
	pr, err := q.commitOf(commit)
	if err != nil || commit != pr.Head && commit != pr.Branch {
		return []checkRun{}, err
	}
	runs = []checkRun{}
	if e := pr.Last(codehost.PassChecks, codehost.FailChecks); e.Action != "" {
		at := second(e.At)
		runs = append(runs, checkRun{pr.Number, "docs", pr.Head, "completed", conclusions[e.Action], at, &at, q.web + pr.WebPath()})
	}
	return runs, nil
}

func (a *API) checkRuns(q *question) (any, error) {
	runs, err := q.checks()
	if err != nil {
		return nil, err
	}
	return struct {
		Count int        `json:"total_count"`
		Runs  []checkRun `json:"check_runs"`
	}{len(runs), page(q, runs)}, nil
}

// status is the combined status, which checks of GitHub Actions are not part of.
func (a *API) status(q *question) (any, error) {
	pr, err := q.commitOf(q.PathValue("commit"))
	if err != nil {
		return nil, err
	}
	return struct {
		State    string `json:"state"`
		SHA      string `json:"sha"`
		Count    int    `json:"total_count"`
		Statuses []any  `json:"statuses"`
	}{"pending", pr.Head, 0, []any{}}, nil
}

type content struct {
	Type     string `json:"type"`
	Encoding string `json:"encoding"`
	Size     int    `json:"size"`
	Name     string `json:"name"`
	Path     string `json:"path"`
	Content  string `json:"content"`
	SHA      string `json:"sha"`
	URL      string `json:"url"`
}

// contents is a file at ref, the newest commit of the base branch without one.
func (a *API) contents(q *question) (any, error) {
	name, ref := q.PathValue("path"), q.URL.Query().Get("ref")
	if len(q.all) == 0 {
		return nil, errNotFound
	}
	if ref == "" {
		ref = q.all[0].Base
	}
	pr, err := q.commitOf(ref)
	if err != nil {
		return nil, err
	}
	text, found, err := a.config.File(q.Context(), pr, ref, name)
	if err != nil || !found {
		if err == nil {
			err = errNotFound
		}
		return nil, err
	}
	return content{
		"file", "base64", len(text), path.Base(name), name, base64.StdEncoding.EncodeToString(text), ref, q.api("/contents/%s", name),
	}, nil
}

func (a *API) rateLimit(q *question) (any, error) {
	header := func(name string) string { return q.header.Get("X-RateLimit-" + name) }
	type rate struct {
		Limit     json.Number `json:"limit"`
		Used      json.Number `json:"used"`
		Remaining json.Number `json:"remaining"`
		Reset     json.Number `json:"reset"`
	}
	core := rate{json.Number(header("Limit")), json.Number(header("Used")), json.Number(header("Remaining")), json.Number(header("Reset"))}
	return map[string]any{"resources": map[string]any{"core": core}, "rate": core}, nil
}
