package sandbox

import (
	"encoding/base64"
	"fmt"
	slashpath "path"
	"strings"
	"time"
)

// object is a JSON object of the API.
type object = map[string]any

var (
	bot      = object{"login": "docgauge-agent[bot]", "id": 1, "type": "Bot"}
	reviewer = object{"login": "sandbox-reviewer", "id": 2, "type": "User"}
)

// second is t as GitHub writes it.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// api is the URL of an object of the repository of q.
func (q *pullQuery) api(format string, args ...any) string {
	return q.web + GitHubPath + "/repos/" + q.slug + fmt.Sprintf(format, args...)
}

// object returns the fields of a pull request that lists have.
func (q *pullQuery) object(pr pullRequest) object {
	slug := q.all[0].slug()
	login, _, _ := strings.Cut(slug, "/")
	owner := object{"login": login, "id": 3, "type": "Organization"}
	repository := object{
		"id": 1, "name": slashpath.Base(slug), "full_name": slug, "owner": owner, "private": false,
		"html_url": q.web + "/" + slug, "url": q.api(""), "default_branch": q.all[0].Base,
	}
	branch := func(name, commit string) object {
		return object{"label": login + ":" + name, "ref": name, "sha": commit, "user": owner, "repo": repository}
	}
	o := object{
		"id": pr.Number, "node_id": fmt.Sprint("PR_", pr.Number), "number": pr.Number,
		"url": q.api("/pulls/%d", pr.Number), "html_url": q.web + pr.WebPath(),
		"state": "open", "locked": false, "draft": pr.isDraft(), "title": pr.Title,
		"body": "Opened by an agent job of the docgauge sandbox.", "user": bot,
		"created_at": second(pr.OpenedAt), "updated_at": second(pr.UpdatedAt), "closed_at": nil, "merged_at": nil,
		"merge_commit_sha": nil, "requested_reviewers": []object{},
		"head": branch(pr.Branch, pr.Head), "base": branch(pr.Base, pr.BaseCommit),
	}
	switch pr.State() {
	case stateOpen:
		if pr.Review() == "" { // a reviewer is requested until the first review
			o["requested_reviewers"] = []object{reviewer}
		}
	case stateMerged:
		at := second(pr.Last(actMerge).At)
		// The sandbox merges without a merge commit.
		o["state"], o["closed_at"], o["merged_at"], o["merge_commit_sha"] = "closed", at, at, pr.Head
	case stateClosed:
		o["state"], o["closed_at"] = "closed", second(pr.Last(actClose).At)
	}
	return o
}

func (q *pullQuery) pulls() (any, error) {
	state, head := q.URL.Query().Get("state"), q.URL.Query().Get("head")
	if state == "" {
		state = "open"
	}
	list := []object{}
	for i := range q.all {
		o := q.object(q.all[len(q.all)-1-i]) // the newest first
		if (state == "all" || o["state"] == state) && (head == "" || head == o["head"].(object)["label"]) {
			list = append(list, o)
		}
	}
	return listPage(q, list), nil
}

func (q *pullQuery) pull() (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	o, changes := q.object(pr), pr.Changes()
	o["comments"], o["review_comments"], o["commits"] = 0, 0, len(pr.Messages)
	o["additions"], o["deletions"], o["changed_files"] = changes.Added, changes.Removed, len(changes.Files)
	o["merged"], o["merged_by"], o["mergeable"], o["mergeable_state"] = false, nil, true, "clean"
	if pr.State() == stateMerged {
		o["merged"], o["merged_by"], o["mergeable"], o["mergeable_state"] = true, reviewer, nil, "unknown"
	}
	return o, nil
}

// reviewStates are GitHub's words for a review.
var reviewStates = map[pullAction]string{actApprove: "APPROVED", actRequestChanges: "CHANGES_REQUESTED"}

func (q *pullQuery) reviews() (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	list := []object{}
	for i, e := range pr.History {
		if state := reviewStates[e.Action]; state != "" {
			list = append(list, object{
				"id": pr.Number*1000 + i, "user": reviewer, "body": "", "state": state, "commit_id": pr.Head,
				"html_url": q.web + pr.WebPath(), "submitted_at": second(e.At),
			})
		}
	}
	return listPage(q, list), nil
}

func (q *pullQuery) files() (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	list := []object{}
	for _, f := range pr.Changes().Files {
		o := object{
			"sha": pr.Head, "filename": f.Name, "status": f.Status,
			"additions": f.Added, "deletions": f.Removed, "changes": f.Added + f.Removed,
		}
		if f.Former != "" {
			o["previous_filename"] = f.Former
		}
		var lines []string
		for _, l := range f.Lines {
			lines = append(lines, l.Text)
		}
		if len(lines) > 0 {
			o["patch"] = strings.Join(lines, "\n")
		}
		list = append(list, o)
	}
	return listPage(q, list), nil
}

// issueEvents are GitHub's words for the events of a pull request.
var issueEvents = map[pullAction]string{
	actReady: "ready_for_review", actDraft: "convert_to_draft", actMerge: "merged", actClose: "closed",
	actReopen: "reopened",
}

// events returns the events of a pull request besides reviews.
func (q *pullQuery) events() (any, error) {
	pr, err := q.pullRequest()
	if err != nil {
		return nil, err
	}
	list := []object{}
	for i, e := range pr.History {
		if e.Action == actDraft && e.At.Equal(pr.OpenedAt) {
			continue // it was opened as one
		}
		add := func(name string, commit any) {
			list = append(list, object{
				"id": pr.Number*1000 + i, "event": name, "actor": reviewer, "commit_id": commit,
				"created_at": second(e.At),
			})
		}
		switch name := issueEvents[e.Action]; {
		case e.Action == actMerge: // GitHub has both
			add(name, pr.Head)
			add("closed", nil)
		case name != "":
			add(name, nil)
		}
	}
	return listPage(q, list), nil
}

// conclusions are GitHub's words for the ends of checks.
var conclusions = map[pullAction]string{actPassChecks: "success", actFailChecks: "failure"}

// checkRuns returns the check of a pull request, if it has one. Only its newest commit has it.
func (q *pullQuery) checkRuns() (any, error) {
	commit := q.PathValue("commit")
	pr, err := q.commitOf(commit)
	if err != nil {
		return nil, err
	}
	runs := []object{}
	if e := pr.Last(actPassChecks, actFailChecks); e.Action != "" && (commit == pr.Head || commit == pr.Branch) {
		runs = append(runs, object{
			"id": pr.Number, "name": "docs", "head_sha": pr.Head, "status": "completed",
			"conclusion": conclusions[e.Action],
			"started_at": second(e.At), "completed_at": second(e.At), "html_url": q.web + pr.WebPath(),
		})
	}
	return object{"total_count": len(runs), "check_runs": listPage(q, runs)}, nil
}

// status is the combined status, which checks of GitHub Actions are not part of.
func (q *pullQuery) status() (any, error) {
	pr, err := q.commitOf(q.PathValue("commit"))
	if err != nil {
		return nil, err
	}
	return object{"state": "pending", "sha": pr.Head, "total_count": 0, "statuses": []any{}}, nil
}

// contents is a file at ref, by default the newest commit of the base branch.
func (a *pullAPI) contents(q *pullQuery) (any, error) {
	name, ref := q.PathValue("path"), q.URL.Query().Get("ref")
	if ref == "" {
		ref = q.all[0].Base
	}
	if _, err := q.commitOf(ref); err != nil {
		return nil, err
	}
	text, found, err := a.file(q.Context(), ref, name)
	if err == nil && !found {
		err = errNotFound
	}
	if err != nil {
		return nil, err
	}
	return object{
		"type": "file", "encoding": "base64", "size": len(text), "name": slashpath.Base(name), "path": name,
		"content": base64.StdEncoding.EncodeToString(text), "sha": ref, "url": q.api("/contents/%s", name),
	}, nil
}
