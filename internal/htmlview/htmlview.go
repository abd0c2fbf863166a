// Package htmlview holds what the status page and the report share: the words for
// numbers, times and windows, the card of a window, the chart of readers, the tables
// of pages and jobs, their templates and their style.
//
// It shows the values of package exporter: what one page shows of a window, a run or
// a job, the other shows the same way. Its invariants: an unknown number is a dash,
// never 0; a window is named by its first and last day; text from outside stays
// text; and nothing here needs a script.
//
// It makes no page, reads nothing and knows no clock.
package htmlview

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
)

var (
	//go:embed style.css
	style string
	//go:embed parts.html
	parts embed.FS
)

// Page is a kind of page: its templates and its style sheet.
type Page struct {
	// Style stands in the page. Policies allow it by its digest.
	Style     template.CSS
	templates *template.Template
}

// NewPage adds the templates and the style sheet of a page to those of this
// package. It panics where they do not parse.
func NewPage(own fs.FS, ownStyle string) Page {
	shared := template.Must(template.ParseFS(parts, "*.html"))
	return Page{template.CSS(style + ownStyle), template.Must(shared.ParseFS(own, "*.html"))}
}

// Render executes a template. The result is valid UTF-8, whatever the paths in data
// hold.
func (p Page) Render(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := p.templates.ExecuteTemplate(&out, name, data); err != nil {
		return nil, err
	}
	return bytes.ToValidUTF8(out.Bytes(), []byte("\uFFFD")), nil
}

// Digest names a style sheet or a script inside a page for its content security
// policy.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
