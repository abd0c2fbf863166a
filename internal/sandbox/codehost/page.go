package codehost

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Path is where the pages are on the sandbox; the number of the pull request follows.
const Path = "/pr/"

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string
	page      = template.Must(template.New("page").Parse(pageText))
)

// policy lets the page have its own style and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// pageData is what the template shows.
type pageData struct {
	PullRequest
	Style  template.CSS
	Opened string
	Lines  []diffLine
}

// diffLine is a line of a diff and its class: add, del, hunk, file or plain.
type diffLine struct{ Class, Text string }

// ServePage answers GET /pr/{n} with the pull request as a page: escaped, no
// script, nothing loaded from anywhere.
func (l *Local) ServePage(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "method: want GET", http.StatusMethodNotAllowed)
		return
	}
	pr, ok := l.Pull(strings.TrimPrefix(r.URL.Path, Path))
	if !ok {
		http.Error(w, "pull request: not found on this sandbox", http.StatusNotFound)
		return
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	data := pageData{pr, template.CSS(pageStyle), pr.OpenedAt.Format(time.RFC3339), diffLines(pr.Diff)}
	_ = page.Execute(w, data) // a client that went away cannot be told
}

var hunkHead = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

// diffLines gives the lines of a unified diff their classes. Only the sizes in
// a hunk's head say what is content: a removed line may begin with "-- ".
func diffLines(diff string) []diffLine {
	var lines []diffLine
	var before, after int // lines left of the hunk
	for text := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		class := "file"
		switch inHunk := before > 0 || after > 0; {
		case inHunk && strings.HasPrefix(text, "+"):
			after--
			class = "add"
		case inHunk && strings.HasPrefix(text, "-"):
			before--
			class = "del"
		case strings.HasPrefix(text, `\`), text == "" && !inHunk:
			class = "plain"
		case inHunk:
			before--
			after--
			class = "plain"
		case strings.HasPrefix(text, "@@ "):
			class = "hunk"
			if m := hunkHead.FindStringSubmatch(text); m != nil {
				// Git leaves out a size of 1.
				before, _ = strconv.Atoi(cmp.Or(m[1], "1"))
				after, _ = strconv.Atoi(cmp.Or(m[2], "1"))
			}
		}
		lines = append(lines, diffLine{class, text})
	}
	return lines
}
