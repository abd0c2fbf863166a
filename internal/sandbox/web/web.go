// Package web makes the pages that a browser shows of the sandbox: what it is and how
// to use it, its pull requests, and each of them with its changes.
//
// Text of prompts, repositories and diffs stays text; a page has no script and loads
// nothing. The package decides neither who may see a page nor what it shows: package
// sandbox hands it values.
package web

import (
	"embed"
	"html/template"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/htmlview"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

var (
	//go:embed *.html
	templates embed.FS
	//go:embed style.css
	style string

	look   = htmlview.NewPage(templates, style)
	policy = "default-src 'none'; style-src " + htmlview.Digest(string(look.Style)) +
		"; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

// Index is what the page at / shows.
type Index struct {
	Traffic string // where the visitors come from: a sentence
	// Exports are the lines to paste into a shell. KeyNote says where the API key is
	// if it is not among them.
	Exports []string
	KeyNote string
	Uses    []Use
	Jobs    []agent.Record // in the order they were created
	// Prompts reports whether jobs may be named by their prompts.
	Prompts bool
	Pulls   []codehost.PullRequest // by number
	Now     time.Time
}

// Use is how many requests of a kind there were, and how many more may come now.
// Limit is 0 where there is none.
type Use struct {
	What        string
	Requests    int64
	Limit, Left int
}

// shownItems is how many jobs and how many pull requests the index lists.
const shownItems = 10

// Page returns the index.
func (x Index) Page() ([]byte, error) {
	newest := slices.Clone(x.Jobs)
	slices.Reverse(newest)
	var jobs []jobItem
	for _, j := range newest[:min(len(newest), shownItems)] {
		jobs = append(jobs, newJobItem(j, x.Prompts, x.Now))
	}
	pulls := newPullItems(x.Pulls, x.Now)
	return look.Render("index", struct {
		Head                head
		Index               Index
		Jobs                []jobItem
		Pulls               []pullItem
		MoreJobs, MorePulls int
	}{
		newHead(""), x, jobs, pulls[:min(len(pulls), shownItems)],
		max(0, len(x.Jobs)-shownItems), max(0, len(x.Pulls)-shownItems),
	})
}

// Pulls returns the list of pull requests, given by number.
func Pulls(pulls []codehost.PullRequest, now time.Time) ([]byte, error) {
	return look.Render("pulls", struct {
		Head  head
		Pulls []pullItem
	}{newHead("Pull requests"), newPullItems(pulls, now)})
}

// Pull returns the page of a pull request.
func Pull(pr codehost.PullRequest, now time.Time) ([]byte, error) {
	return look.Render("pull", struct {
		Head                head
		Pull                pullItem
		Repository, Commits string
		Updated             moment
		History             []happened
		Buttons             []button
		Files               []file
	}{
		newHead(pr.Title), newPullItem(pr, now), repositoryName(pr.Repository), format.Plural(len(pr.Messages), "commit"),
		momentOf(pr.UpdatedAt, now), historyOf(pr, now), buttonsOf(pr), filesOf(pr),
	})
}

// happened is something that was done to a pull request.
type happened struct {
	What string
	At   moment
}

// button does something to a pull request. Primary is the one that people look for.
type button struct {
	Action  codehost.Action
	Text    string
	Primary bool
}

// actions are the words for what can be done, and was done, to a pull request.
var actions = map[codehost.Action]struct{ button, done string }{
	codehost.Ready:          {"Ready for review", "Ready for review"},
	codehost.Draft:          {"Convert to draft", "Converted to a draft"},
	codehost.Approve:        {"Approve", "Approved"},
	codehost.RequestChanges: {"Request changes", "Changes requested"},
	codehost.PassChecks:     {"Pass checks", "Checks passed"},
	codehost.FailChecks:     {"Fail checks", "Checks failed"},
	codehost.Merge:          {"Merge", "Merged"},
	codehost.Close:          {"Close", "Closed"},
	codehost.Reopen:         {"Reopen", "Reopened"},
}

func historyOf(pr codehost.PullRequest, now time.Time) (list []happened) {
	for _, e := range pr.History {
		list = append(list, happened{actions[e.Action].done, momentOf(e.At, now)})
	}
	return list
}

func buttonsOf(pr codehost.PullRequest) (list []button) {
	for _, a := range pr.Allows() {
		list = append(list, button{a, actions[a].button, a == codehost.Merge || a == codehost.Ready || a == codehost.Reopen})
	}
	return list
}

// file is a file of a diff, and in words what became of it.
type file struct {
	codehost.File
	Note string
}

// notes are the words for GitHub's states of a file.
var notes = map[string]string{"added": "new", "removed": "deleted", "renamed": "renamed from ", "copied": "copied from ", "changed": "mode changed"}

func filesOf(pr codehost.PullRequest) (files []file) {
	for _, f := range codehost.ParseDiff(pr.Diff) {
		note := notes[f.Status] + f.Former
		if f.Binary {
			note = "binary"
		}
		files = append(files, file{f, note})
	}
	return files
}

// Write sends a page that [Index.Page], [Pulls] or [Pull] made.
func Write(w http.ResponseWriter, page []byte) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer, browsers send the origin null with a form.
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(page)))
	_, _ = w.Write(page) // a client that went away cannot be told
}

// head is what every page has.
type head struct {
	Style template.CSS
	Title string // empty: that of the index
}

func newHead(title string) head { return head{look.Style, title} }

// moment is a time as people write it, and how long ago it was.
type moment struct{ ISO, Text, Age string }

func momentOf(t, now time.Time) moment {
	m := htmlview.MomentOf(t, now)
	return moment{m.ISO, format.Days(t.UTC(), t.UTC(), now.Year()) + ", " + m.Clock + " UTC", m.Age}
}

type jobItem struct {
	ID, Name, State, Tone string
	Created               moment
	Link                  string // of its pull request
}

// tones are the colours of states.
var tones = map[agent.Status]string{agent.Active: "wait", agent.Completed: "ok", agent.Failed: "bad"}

func newJobItem(j agent.Record, prompts bool, now time.Time) jobItem {
	item := jobItem{
		ID: j.ID, State: string(j.Status), Tone: tones[j.Status], Created: momentOf(j.CreatedAt, now), Link: j.Link,
	}
	if prompts && len(j.Prompts) > 0 {
		item.Name = agent.Subject(j.Prompts[0])
	}
	return item
}

type pullItem struct {
	Number         int
	Link           string
	Title, Branch  string
	Base           string
	State, Tone    string
	Review, Checks string // in words, in the middle of a sentence; empty: none
	Messages       []string
	Opened         moment
	Files          string // 1 file
	Added, Removed int
}

// pullTones are the colours of states of pull requests.
var pullTones = map[codehost.State]string{codehost.Open: "wait", codehost.Merged: "ok", codehost.Closed: "bad"}

func newPullItem(pr codehost.PullRequest, now time.Time) pullItem {
	item := pullItem{
		Number: pr.Number, Link: pr.WebPath(), Title: pr.Title, Branch: pr.Branch, Base: pr.Base, Messages: pr.Messages,
		State: string(pr.State()), Tone: pullTones[pr.State()], Opened: momentOf(pr.OpenedAt, now),
		Review: strings.ToLower(actions[pr.Review()].done), Checks: strings.ToLower(actions[pr.Checks()].done),
	}
	files := codehost.ParseDiff(pr.Diff)
	item.Files = format.Plural(len(files), "file")
	for _, f := range files {
		item.Added += f.Added
		item.Removed += f.Removed
	}
	return item
}

// newPullItems lists pull requests, the newest first.
func newPullItems(pulls []codehost.PullRequest, now time.Time) (items []pullItem) {
	for _, pr := range slices.Backward(pulls) {
		items = append(items, newPullItem(pr, now))
	}
	return items
}

// repositoryName is the name of a repository without the directories that it is in
// on this machine.
func repositoryName(repository string) string {
	if filepath.IsAbs(repository) {
		return path.Base(filepath.ToSlash(repository))
	}
	return repository
}
