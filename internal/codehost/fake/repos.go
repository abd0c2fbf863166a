package fake

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	slashpath "path"
	"strings"
	"time"
)

// object is a JSON object of the API.
type object = map[string]any

// reposRoutes are the routes of GitHub and of Gitea.
func reposRoutes(kind string) map[string]func(*query) (any, error) {
	const root = "/repos/{owner}/{repo}"
	routes := map[string]func(*query) (any, error){
		"GET " + root:                              (*query).rights,
		"GET " + root + "/pulls":                   (*query).list,
		"POST " + root + "/pulls":                  (*query).open,
		"GET " + root + "/pulls/{number}":          ofPull((*query).one),
		"PATCH " + root + "/pulls/{number}":        (*query).change,
		"POST " + root + "/issues/{number}/labels": (*query).label,
		"GET " + root + "/pulls/{number}/reviews":  ofList((*query).reviews),
		"GET " + root + "/pulls/{number}/files":    ofList((*query).files),
		"GET " + root + "/commits/{commit}/status": (*query).status,
		"GET " + root + "/contents/{path...}":      (*query).contents,
	}
	if kind == gitea {
		routes["GET "+root+"/issues/{number}/timeline"] = (*query).timeline
		return routes
	}
	routes["GET "+root+"/issues/{number}/events"] = ofList((*query).events)
	routes["GET "+root+"/commits/{commit}/check-runs"] = (*query).checkRuns
	return routes
}

var (
	bot      = object{"login": "docgauge-agent[bot]", "username": "docgauge-agent", "id": 1, "type": "Bot"}
	reviewer = object{"login": "sandbox-reviewer", "username": "sandbox-reviewer", "id": 2, "type": "User"}
)

// second is t as the hosts write it.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// api is the URL of an object of the repository of q.
func (q *query) api(format string, args ...any) string {
	return q.web + q.host.Prefix + "/repos/" + q.slug + fmt.Sprintf(format, args...)
}

// page is the URL of the page of a pull request.
func (q *query) page(pr Pull) string {
	return q.web + "/" + q.repository(pr) + q.host.linkPath(pr.Number)
}

// rights is what the token may do. Of Gitea, push is the right of the account, whatever the token may.
func (q *query) rights() (any, error) {
	push := !q.host.ReadOnly || q.host.Kind.Name == gitea
	return object{"full_name": q.slug, "archived": false, "has_pull_requests": true,
		"permissions": object{"admin": false, "pull": true, "push": push}}, nil
}

// object returns the fields of a pull request that lists have.
func (q *query) object(pr Pull) object {
	if q.host.Kind.Name == gitLab {
		return q.merge(pr)
	}
	login, name, _ := strings.Cut(q.slug, "/")
	repository := func(id int, login string) object {
		return object{
			"id": id, "name": name, "full_name": login + "/" + name, "private": false,
			"owner":    object{"login": login, "id": 2 + id, "type": "Organization"},
			"html_url": q.web + "/" + login + "/" + name, "url": q.api(""), "default_branch": pr.Base,
		}
	}
	branch := func(id int, login, name, commit string) object {
		label, repository := login+":"+name, repository(id, login)
		if q.host.Kind.Name == gitea {
			label = name
		}
		return object{"label": label, "ref": name, "sha": commit, "user": repository["owner"], "repo": repository,
			"repo_id": id}
	}
	o := object{
		"id": pr.Number, "node_id": fmt.Sprint("PR_", pr.Number), "number": pr.Number,
		"url": q.api("/pulls/%d", pr.Number), "html_url": q.page(pr),
		"state": "open", "locked": false, "draft": pr.isDraft(), "title": pr.Title,
		"body": pr.Body, "user": bot, "merged": false,
		"created_at": second(pr.OpenedAt), "updated_at": second(pr.UpdatedAt), "closed_at": nil, "merged_at": nil,
		"merge_commit_sha": nil, "requested_reviewers": []object{},
		"head": branch(1, login, pr.Branch, pr.Head), "base": branch(1, login, pr.Base, pr.BaseCommit),
	}
	if pr.Fork {
		o["head"] = branch(2, "forks", pr.Branch, pr.Head)
	}
	if q.host.Kind.Name == gitea && pr.isDraft() {
		o["title"] = giteaDraft + pr.Title
	}
	switch pr.State() {
	case Open:
		if pr.Review() == "" { // a reviewer is requested until the first review
			o["requested_reviewers"] = []object{reviewer}
		}
	case Merged:
		at := second(pr.Last(Merge).At)
		// The branch is deleted then, and Gitea's ref is another.
		o["state"], o["closed_at"], o["merged"], o["merged_at"] = "closed", at, true, at
		o["merge_commit_sha"] = cmp.Or(pr.MergeCommit, pr.Head)
		if q.host.Kind.Name == gitea {
			o["head"].(object)["ref"] = fmt.Sprintf("refs/pull/%d/head", pr.Number)
		}
	case Closed:
		o["state"], o["closed_at"] = "closed", second(pr.Last(Close).At)
	}
	if q.host.Kind.Name == gitHub {
		delete(o, "merged") // lists do not have it
	}
	return o
}

// giteaDraft is the beginning of the title of a draft.
const giteaDraft = "WIP: "

func (q *query) one(pr Pull) object {
	o, changes := q.object(pr), pr.Changes()
	o["comments"], o["review_comments"], o["commits"] = 0, 0, len(pr.Messages)
	o["additions"], o["deletions"], o["changed_files"] = changes.Added, changes.Removed, len(changes.Files)
	o["merged"], o["merged_by"], o["mergeable"], o["mergeable_state"] = false, nil, true, "clean"
	if pr.State() == Merged {
		o["merged"], o["merged_by"], o["mergeable"], o["mergeable_state"] = true, reviewer, nil, "unknown"
	}
	return o
}

// words are the words of GitHub and of Gitea for what people do.
type words map[Action][2]string

func (w words) text(kind string, a Action) string {
	if kind == gitea {
		return w[a][1]
	}
	return w[a][0]
}

var (
	reviewStates = words{Approve: {"APPROVED", "APPROVED"}, RequestChanges: {"CHANGES_REQUESTED", "REQUEST_CHANGES"}}
	issueEvents  = words{
		Ready: {"ready_for_review", "change_title"}, ConvertToDraft: {"convert_to_draft", "change_title"},
		Merge: {"merged", "merge_pull"}, Close: {"closed", "close"}, Reopen: {"reopened", "reopen"},
	}
)

// happenings returns an object for each event of a pull request that has a word.
func (q *query) happenings(pr Pull, words words, field, when string) []object {
	list := []object{}
	for i, e := range pr.History {
		name := words.text(q.host.Kind.Name, e.Action)
		if name == "" || e.Action == ConvertToDraft && e.At.Equal(pr.OpenedAt) { // it was opened as one
			continue
		}
		list = append(list, object{"id": pr.Number*1000 + i, field: name, "user": reviewer, when: second(e.At)})
		if o := list[len(list)-1]; name == "change_title" {
			o["old_title"], o["new_title"] = pr.Title, giteaDraft+pr.Title
			if e.Action == Ready {
				o["old_title"], o["new_title"] = o["new_title"], o["old_title"]
			}
		}
	}
	return list
}

func (q *query) reviews(pr Pull) []object {
	list := q.happenings(pr, reviewStates, "state", "submitted_at")
	for _, o := range list {
		o["body"], o["commit_id"], o["html_url"] = "", pr.Head, q.page(pr)
	}
	return list
}

// timeline is the events of Gitea. A token for the repository alone may not read them.
func (q *query) timeline() (any, error) {
	if q.host.ReadOnly {
		return nil, &refusal{status: http.StatusForbidden,
			message: "token does not have at least one of required scope(s): [read:issue]"}
	}
	return ofList(func(q *query, pr Pull) []object { return q.happenings(pr, issueEvents, "type", "created_at") })(q)
}

// events returns the events of a pull request besides reviews.
func (q *query) events(pr Pull) (list []object) {
	for _, o := range q.happenings(pr, issueEvents, "event", "created_at") {
		o["actor"], o["commit_id"] = o["user"], nil
		delete(o, "user")
		list = append(list, o)
		if o["event"] == "merged" { // GitHub has both
			o["commit_id"] = pr.Head
			list = append(list, object{"id": o["id"], "event": "closed", "actor": reviewer, "commit_id": nil,
				"created_at": o["created_at"]})
		}
	}
	return list
}

func (q *query) files(pr Pull) (list []object) {
	for _, f := range pr.Changes().Files {
		o := object{
			"sha": pr.Head, "filename": f.Name, "status": f.Status,
			"additions": f.Added, "deletions": f.Removed, "changes": f.Added + f.Removed,
		}
		if f.Former != "" {
			o["previous_filename"] = f.Former
		}
		if patch := f.patch(); patch != "" && q.host.Kind.Name == gitHub {
			o["patch"] = patch
		}
		list = append(list, o)
	}
	return list
}

// patch is the hunks of a file.
func (f File) patch() string {
	var lines []string
	for _, l := range f.Lines {
		lines = append(lines, l.Text)
	}
	return strings.Join(lines, "\n")
}

// conclusions are the words for the ends of checks.
var conclusions = map[Action]string{PassChecks: "success", FailChecks: "failure"}

// checkOf returns the check of a commit. Only the newest one of a pull request has one.
func (q *query) checkOf(commit string) (pr Pull, check Event, err error) {
	if pr, err = q.commitOf(commit); err == nil && (commit == pr.Head || commit == pr.Branch) {
		check = pr.Last(PassChecks, FailChecks)
	}
	return pr, check, err
}

func (q *query) checkRuns() (any, error) {
	pr, check, err := q.checkOf(q.PathValue("commit"))
	if err != nil {
		return nil, err
	}
	runs := []object{}
	if check.Action != "" {
		runs = append(runs, object{
			"id": pr.Number, "name": "docs", "head_sha": pr.Head, "status": "completed",
			"conclusion": conclusions[check.Action],
			"started_at": second(check.At), "completed_at": second(check.At), "html_url": q.page(pr),
		})
	}
	return object{"total_count": len(runs), "check_runs": page(q, runs)}, nil
}

// status is the combined status. Checks of GitHub Actions are not part of it; Gitea's are.
func (q *query) status() (any, error) {
	pr, check, err := q.checkOf(q.PathValue("commit"))
	if err != nil {
		return nil, err
	}
	o := object{"state": "pending", "sha": pr.Head, "total_count": 0, "statuses": []any{}}
	if q.host.Kind.Name == gitea {
		if o["state"] = conclusions[check.Action]; check.Action != "" {
			o["total_count"], o["statuses"] = 1, []object{{"status": o["state"], "context": "docs"}}
		}
	}
	return o, nil
}

// contents is a file at ref, by default the newest commit of the base branch.
func (q *query) contents() (any, error) {
	name, ref := q.PathValue("path"), q.URL.Query().Get("ref")
	for pr := range q.pulls() {
		ref = cmp.Or(ref, pr.Base)
	}
	if _, err := q.commitOf(ref); err != nil || q.host.File == nil {
		return nil, errNotFound
	}
	text, found, err := q.host.File(q.Context(), ref, name)
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

// tokenSelf is the route of GitLab about a token.
const tokenSelf = http.MethodGet + " /personal_access_tokens/self"
