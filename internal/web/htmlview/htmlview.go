// Package htmlview holds what the status page and the report share: the words for times and
// windows, the card of a window, the chart of readers, the tables of pages, jobs and effects,
// their templates and their style.
//
// Templates range over the values of package view, so both pages show a window, a run or a job
// the same way. An unknown number is a dash, never 0; a window is named by its first and last day;
// text from outside stays text; and nothing here needs a script.
//
// It makes no page, reads nothing and knows no clock.
package htmlview

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

var (
	//go:embed style.css
	style string
	//go:embed parts.html
	parts embed.FS
)

// functions put the values of package view into words.
var functions = template.FuncMap{
	"commas": func(n int64) string { return format.Commas(n) },
	"count":  func(n int) string { return format.Commas(n) },
	"plural": func(n int, one string) string { return format.Plural(n, one) },
	// name and message shorten text from outside.
	"name":    func(s any) string { return format.Cut(fmt.Sprint(s), view.MaxName) },
	"message": func(s string) string { return format.Cut(s, view.MaxMessage) },
	"percent": view.Percent, "growth": view.Growth, "both": bothText, "bothNote": bothNote,
	"moment": MomentOf, "jobTook": jobTook, "span": SpanOf, "marks": func() map[string]string { return marks },
	"legend": LegendOf, "gaps": gaps, "gain": gain, "gainTone": gainTone,
	"link": func(s string) view.Link { return view.Link(s) },
	"mergeDate": func(m view.Merge) string {
		return view.Days(analytics.Day, analytics.Window{From: m.Date(), To: m.Date() + 1})
	},
}

// Page is a kind of page: its templates and its style sheet.
type Page struct {
	// Style stands in the page. Policies allow it by its digest.
	Style     template.CSS
	templates *template.Template
}

// NewPage adds the templates and the style sheet of a page to those of this
// package. It panics where they do not parse.
func NewPage(own fs.FS, ownStyle string) Page {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(parts, "*.html"))
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
