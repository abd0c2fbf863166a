// Package web shows values to people and programs: the pages of a server and the report as HTML, the
// numbers as JSON and CSV. Package server serves them. The pages open with the readers; a URL names the project, the
// window and the comparison of each ([Site]).
//
// Templates range over the values of package view, so every page shows a window, a run or a job
// the same way, and the words for them are template functions. Its invariants: a page is made
// once for each snapshot, so a view reads no state and sends no request (older windows, lists of all pages and the page
// of a path are read from the archive, as questions to the API are, a bounded number at a time); it is whole or an error,
// and can be read without its script; it requests nothing, except that the script of a page of a
// server asks for that page again, which a content security policy enforces that allows its own style
// and script by their digests; whatever comes from the API, a sink or an archive stays text; an
// unknown number is a dash, never 0; a window is named by its first and last day; unique visitors are
// never added up, except that human + AI − total is the number of visitors that were both; and the
// size of a page is bounded by the projects and windows configured, and the pages listed.
//
// Ages ("3 min ago") count from the moment of the snapshot, which each page names. The report can
// be read from an archive too ([ReadReport]). The package does not decide what is due.
package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
)

//go:embed parts status report path
var files embed.FS

// functions put values into words.
var functions = template.FuncMap{
	"commas": func(n any) string { return format.Commas(reflect.Indirect(reflect.ValueOf(n)).Int()) },
	"plural": func(n any, one string) string { return format.Plural(reflect.ValueOf(n).Int(), one) },
	// name, message and short shorten text from outside.
	"name":    func(s any) string { return format.Cut(fmt.Sprint(s), view.MaxName) },
	"message": func(s string) string { return format.Cut(s, view.MaxMessage) },
	"short":   func(s string) string { return format.Cut(s, maxError) },
	// folders are the pieces between which a path is broken first.
	"folders": func(path string) []string { return strings.SplitAfter(format.Path(path), "/") },
	"percent": view.Percent, "both": bothText,
	// part is n of whole in whole percent, from 0 to 100.
	"part":   func(n, whole int) int { return min(max(n*100/max(whole, 1), 0), 100) },
	"moment": momentOf, "took": took, "days": view.Days, "span": spanOf, "title": title,
	"legend": legendOf, "gaps": gaps,
	"marks":     func() map[string]string { return marks },
	"agentGain": agentGain, "sent": sentText, "agentRule": func(list query.AgentList) string { return list.Rule() },
	"agentRow": agentList.row, "agentLink": agentList.link, "openTab": openTab, "shownAgents": shownAgents,
	"moreAgents": moreAgents,
	"pageGain":   pageGain, "jobTook": jobTook, "outcome": outcomeOf,
	"dueReason": func(reason string) string { return dueReasons[reason] },
	"waitReason": func(r analytics.AsideReason) string {
		return cmp.Or(waitReasons[r], "Skipped: "+string(r))
	},
	"join": func(all []string) string { return strings.Join(all, ", ") }, "known": format.Known,
	"size": func(n int64) string {
		if n < 0 {
			return "–"
		}
		return format.Size(n)
	},
	"totalsOnlyDoc": func() string { return "https://github.com/docgauge/docgauge/blob/main/docs/api.md#what-it-costs" },
	"keyLeft":       keyLeft, "keyConcern": keyConcern,
	// remedy links to the section of the runbook about an alert.
	"remedy": func(rule string) string {
		return "https://github.com/docgauge/docgauge/blob/main/docs/runbook.md#" + strings.ToLower(rule)
	},
	"refreshEvery": func(s *view.Snapshot) int {
		if s == nil {
			return int(startingRefresh / time.Second)
		}
		return int(pageRefresh / time.Second)
	},
	// linked is the path of a page of a project, and perhaps the rest of the address of its numbers.
	"linked": func(project string, path any, rest ...string) linkedPath {
		return linkedPath{fmt.Sprint(path), project, strings.Join(rest, "")}
	},
	"pageLink": func(l pageList, path string) linkedPath { return linkedPath{path, l.Project, l.Query} },
	"href":     linkedPath.href, "pageURL": pageURL, "since": sinceOf,
	"sort": pageList.sort, "bar": pageList.bar,
	"before": pathWindow.before, "windowState": pathWindow.state, "moved": pathWindow.moved,
	"notCounted": (*statusPage).notCounted, "budgetName": (*statusPage).budgetName,
	"newestCard": (*statusProject).newest, "missing": (*statusProject).missing, "openJobs": (*statusProject).openJobs,
	"projectState": (*statusProject).state,
	"link":         func(s string) view.Link { return view.Link(s) },
	"day": func(at time.Time) string {
		date := analytics.DateOf(at)
		return view.Days(analytics.Day, analytics.Window{From: date, To: date + 1})
	},
}

// pageKind is the templates of one kind of page, and its style sheet and script, which stand in
// the page. policy allows those, by their digests, and the icon; livePolicy allows the script to ask
// the server of the page for newer numbers too, and forms to choose another window there. It is read when it is first needed: every command would
// start 5 ms later.
type pageKind struct {
	style              template.CSS
	script             template.JS
	policy, livePolicy string
	templates          *template.Template
}

var (
	statusKind = sync.OnceValue(func() pageKind { return newPageKind("status", "") })
	reportKind = sync.OnceValue(func() pageKind { return newPageKind("report", asset("report/script.js")) })
	pathKind   = sync.OnceValue(func() pageKind { return newPageKind("path", "") })
)

// newPageKind reads the templates below dir, and those that all pages share, as well as their style
// sheet and their script, which script continues.
func newPageKind(dir, script string) pageKind {
	parsed := template.Must(template.New("").Funcs(functions).ParseFS(files, "parts/*.html", dir+"/*.html"))
	script = asset("parts/script.js") + script
	k := pageKind{style: template.CSS(asset("parts/style.css")),
		script: template.JS(script), templates: parsed}
	begin := "default-src 'none'; style-src " + digest(string(k.style)) + "; script-src " + digest(script)
	const end = "; img-src data:; base-uri 'none'; form-action "
	k.policy, k.livePolicy = begin+end+"'none'", begin+"; connect-src 'self'"+end+"'self'"
	return k
}

func asset(name string) string {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(data)
}

// render executes a template. The result is valid UTF-8, whatever the paths in data contain.
func (k pageKind) render(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := k.templates.ExecuteTemplate(&out, name, data); err != nil {
		return nil, err
	}
	return bytes.ToValidUTF8(out.Bytes(), []byte("\uFFFD")), nil
}

// digest names a style sheet or a script inside a page for its content security policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// linkedPath is the path of a page. Project leads to the numbers of that page; empty: nothing does. Query is the rest of
// the address.
type linkedPath struct{ Path, Project, Query string }

// maxLinked is the length of the longest path that leads to its numbers, which bounds the size of pages.
const maxLinked = 1000

// href is the address of the numbers of the page; empty: there is none.
func (p linkedPath) href() string {
	if p.Project == "" || len(p.Path) > maxLinked {
		return ""
	}
	return pageURL(p.Project, p.Path) + p.Query
}

// How often the script of a page asks for newer numbers, before and after the first.
const (
	startingRefresh = 5 * time.Second
	pageRefresh     = time.Minute
)

const day = 24 * time.Hour
