package sandbox

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// The pages that a browser shows: how to use the sandbox, and its pull requests. Text of
// prompts, repositories and diffs stays text; a page has no script and loads nothing.
var (
	//go:embed pages.html
	pagesHTML string
	//go:embed style.css
	style     string
	templates = template.Must(template.New("").Funcs(template.FuncMap{
		"plural": format.Plural[int], "lower": strings.ToLower, "subject": runner.Subject,
		"button":  func(a fake.Action) string { return actionWords[a].button },
		"done":    func(a fake.Action) string { return actionWords[a].done },
		"primary": func(a fake.Action) bool { return slices.Contains(primary, a) },
		"tone":    func(state any) string { return tones[fmt.Sprint(state)] },
		"note":    fileNote,
	}).Parse(pagesHTML))

	styleDigest = sha256.Sum256([]byte(style))
	pagePolicy  = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(styleDigest[:]) +
		"'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

// actionWords are the words of a button, and of the history after it was pressed.
var actionWords = map[fake.Action]struct{ button, done string }{
	fake.Ready:          {"Ready for review", "Ready for review"},
	fake.ConvertToDraft: {"Convert to draft", "Converted to a draft"},
	fake.Approve:        {"Approve", "Approved"},
	fake.RequestChanges: {"Request changes", "Changes requested"},
	fake.PassChecks:     {"Pass checks", "Checks passed"},
	fake.FailChecks:     {"Fail checks", "Checks failed"},
	fake.Merge:          {"Merge", "Merged"},
	fake.Close:          {"Close", "Closed"},
	fake.Reopen:         {"Reopen", "Reopened"},
}

// primary are the actions whose buttons stand out.
var primary = []fake.Action{fake.Merge, fake.Ready, fake.Reopen}

// tones are the colours of the states of jobs and pull requests.
var tones = map[string]string{
	"active": "wait", "completed": "ok", "failed": "bad", "open": "wait", "merged": "ok", "closed": "bad",
}

// fileNote says what happened to a file of a pull request.
func fileNote(f fake.File) string {
	if f.Binary {
		return "binary"
	}
	words := map[string]string{
		"added": "new", "removed": "deleted", "renamed": "renamed from ", "copied": "copied from ",
		"changed": "mode changed",
	}
	return words[f.Status] + f.Former
}

// pageData is the data of every template.
type pageData struct {
	Style template.CSS
	Title string // empty: the title of the index
	Data  any
	now   time.Time
}

// indexData is the data of the page at /.
type indexData struct {
	Traffic string // a sentence about the origin of the visitors
	// Exports are the lines to paste into a shell. KeyNote says where the API key is if it is
	// not among them.
	Exports []string
	KeyNote string
	Uses    []usage
	// Jobs and Pulls are the newest, More… the number of others. Prompts reports whether jobs
	// may be named by their prompts.
	Jobs                []runner.Job
	Pulls               []fake.Pull
	MoreJobs, MorePulls int
	Prompts             bool
}

// usage counts the requests of a kind so far, and those that may come now. Limit is 0 for an
// unlimited kind.
type usage struct {
	What        string
	Requests    int64
	Limit, Left int
}

// shownItems is the number of jobs and of pull requests that the index lists.
const shownItems = 10

// newest returns the last items of a list, the newest first, and how many others there are.
func newest[T any](list []T) (shown []T, more int) {
	shown = slices.Clone(list[max(0, len(list)-shownItems):])
	slices.Reverse(shown)
	return shown, len(list) - len(shown)
}

// render returns a page as valid UTF-8, whatever diffs and prompts contain.
func render(name, title string, data any, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, pageData{template.CSS(style), title, data, now}); err != nil {
		return nil, err
	}
	return bytes.ToValidUTF8(out.Bytes(), []byte("\uFFFD")), nil
}

// When is t and its age.
func (p pageData) When(t time.Time) template.HTML {
	age := "just now"
	if d := p.now.Sub(t); d >= time.Minute {
		age = format.Duration(d) + " ago"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time> <span class="age">(%s)</span>`,
		t.UTC().Format(time.RFC3339), t.UTC().Format("2 Jan 2006, 15:04 UTC"), age))
}

// writePage sends a rendered page.
func writePage(w http.ResponseWriter, text []byte) {
	header := w.Header()
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer, browsers send the origin null with a form.
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // the client may have gone
}
