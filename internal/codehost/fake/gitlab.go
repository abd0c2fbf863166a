package fake

import "strconv"

const gitlabPulls = "/projects/{project}/merge_requests"

// gitlabRoutes are the routes of GitLab.
var gitlabRoutes = map[string]func(*query) (any, error){
	tokenSelf:                 (*query).scopes,
	"GET /projects/{project}": (*query).project,
	"GET /projects/{project}/repository/files/{path}":        (*query).contents,
	"GET " + gitlabPulls:                                     (*query).list,
	"POST " + gitlabPulls:                                    (*query).open,
	"GET " + gitlabPulls + "/{number}":                       ofPull((*query).oneMerge),
	"PUT " + gitlabPulls + "/{number}":                       (*query).change,
	"GET " + gitlabPulls + "/{number}/approvals":             ofPull((*query).approvals),
	"GET " + gitlabPulls + "/{number}/notes":                 ofList((*query).notes),
	"GET " + gitlabPulls + "/{number}/resource_state_events": ofList((*query).stateEvents),
	"GET " + gitlabPulls + "/{number}/diffs":                 ofList((*query).diffs),
}

// scopes is what GitLab says of a token.
func (q *query) scopes() (any, error) {
	scopes := []string{"api"}
	if q.host.ReadOnly {
		scopes = []string{"read_api", "read_repository"}
	}
	return object{"scopes": scopes, "active": true, "revoked": false}, nil
}

func (q *query) project() (any, error) {
	return object{"archived": false, "merge_requests_access_level": "enabled", "can_create_merge_request_in": true,
		"permissions": object{"project_access": nil, "group_access": object{"access_level": 30}}}, nil
}

// merge returns the fields of a merge request that lists have.
func (q *query) merge(pr Pull) object {
	o := object{
		"id": 1000 + pr.Number, "iid": pr.Number, "project_id": 1, "state": "opened", "draft": pr.isDraft(),
		"title": pr.Title, "description": pr.Body, "author": bot, "web_url": q.page(pr), "sha": pr.Head,
		"created_at": second(pr.OpenedAt), "updated_at": second(pr.UpdatedAt), "closed_at": nil, "merged_at": nil,
		"merge_commit_sha": nil, "squash_commit_sha": nil, "reviewers": []object{reviewer},
		"source_branch": pr.Branch, "target_branch": pr.Base, "source_project_id": 1, "target_project_id": 1,
		"detailed_merge_status": "mergeable",
	}
	if pr.Fork {
		o["source_project_id"] = 2
	}
	if pr.isDraft() {
		o["title"], o["detailed_merge_status"], o["reviewers"] = "Draft: "+pr.Title, "draft_status", []object{}
	} else if pr.Review() == RequestChanges {
		o["detailed_merge_status"] = "requested_changes"
	}
	switch pr.State() {
	case Merged:
		o["state"], o["merged_at"], o["merge_commit_sha"] = "merged", second(pr.Last(Merge).At), pr.MergeCommit
	case Closed:
		o["state"], o["closed_at"] = "closed", second(pr.Last(Close).At)
	}
	return o
}

// oneMerge has what lists leave out.
func (q *query) oneMerge(pr Pull) object {
	o := q.merge(pr)
	o["changes_count"], o["head_pipeline"] = strconv.Itoa(len(pr.Changes().Files)), nil
	if status := map[Action]string{PassChecks: "success", FailChecks: "failed"}[pr.Checks()]; status != "" {
		o["head_pipeline"] = object{"status": status, "sha": pr.Head}
	}
	return o
}

// approvals: without a rule, a merge request counts as approved by no one.
func (q *query) approvals(pr Pull) object {
	by := []object{}
	if pr.Review() == Approve {
		by = append(by, object{"user": reviewer})
	}
	return object{"approved": true, "approved_by": by}
}

// systemNotes are the notes that GitLab writes about what people do.
var systemNotes = map[Action]string{
	Approve: "approved this merge request", RequestChanges: "requested changes",
	Ready: "marked this merge request as **ready**", ConvertToDraft: "marked this merge request as **draft**",
}

func (q *query) notes(pr Pull) (list []object) {
	for i, e := range pr.History {
		if body := systemNotes[e.Action]; body != "" && (e.Action != ConvertToDraft || e.At.After(pr.OpenedAt)) {
			list = append(list, object{"id": pr.Number*1000 + i, "system": true, "body": body, "author": reviewer,
				"created_at": second(e.At)})
		}
	}
	return list
}

func (q *query) stateEvents(pr Pull) (list []object) {
	states := map[Action]string{Merge: "merged", Close: "closed", Reopen: "reopened"}
	for i, e := range pr.History {
		if state := states[e.Action]; state != "" {
			list = append(list, object{"id": pr.Number*1000 + i, "state": state, "user": reviewer,
				"created_at": second(e.At)})
		}
	}
	return list
}

func (q *query) diffs(pr Pull) (list []object) {
	for _, f := range pr.Changes().Files {
		former := f.Former
		if former == "" {
			former = f.Name
		}
		list = append(list, object{"new_path": f.Name, "old_path": former, "diff": f.patch() + "\n",
			"new_file": f.Status == "added", "deleted_file": f.Status == "removed", "renamed_file": f.Status == "renamed"})
	}
	return list
}
