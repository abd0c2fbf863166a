package report

import (
	"bytes"
	"embed"
	"html/template"
	"io"

	"github.com/docgauge/docgauge/internal/htmlview"
)

var (
	//go:embed *.html
	files embed.FS
	//go:embed style.css
	own   string
	style = htmlview.Style + own
	//go:embed script.js
	script string

	templates = template.Must(template.Must(template.ParseFS(htmlview.Files, "*.html")).ParseFS(files, "*.html"))
	// policy allows the style and the script of the page, by their hashes, and the icon.
	policy = "default-src 'none'; style-src '" + htmlview.Digest(style) + "'; script-src '" + htmlview.Digest(script) + "'; " +
		"img-src data:; base-uri 'none'; form-action 'none'"
)

// Write writes the page. Nothing is written where it cannot be made.
func Write(out io.Writer, r Report) error {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, "report", documentOf(r)); err != nil {
		return err
	}
	_, err := out.Write(bytes.ToValidUTF8(page.Bytes(), []byte("\uFFFD"))) // paths can hold any byte
	return err
}

// document is all that the templates show, in words.
type document struct {
	Style    template.CSS
	Script   template.JS
	Policy   string
	Version  string
	Title    string
	Made     htmlview.Moment
	Archive  string
	Asked    string // the dates asked for; empty: none
	Projects []project
	Health   *health
	Queue    *queue
}

func documentOf(r Report) document {
	d := document{
		Style: template.CSS(style), Script: template.JS(script), Policy: policy, Version: r.Version, Archive: r.Archive,
		Made: htmlview.MomentOf(r.Made, r.Made), Asked: asked(r), Title: "Documentation readers",
	}
	if len(r.Projects) == 1 {
		d.Title += " of " + htmlview.Cut(r.Projects[0].ID, maxLetters)
	}
	for i, p := range r.Projects {
		d.Projects = append(d.Projects, projectOf(r, p, i))
	}
	if r.State != nil {
		d.Health = healthOf(*r.State, r.Made)
		d.Queue = queueOf(r)
	}
	return d
}

func asked(r Report) string {
	switch {
	case r.From != nil && r.To != nil:
		return "windows inside [" + r.From.String() + "," + r.To.String() + ")"
	case r.From != nil:
		return "windows that begin on or after " + r.From.String()
	case r.To != nil:
		return "windows that end on or before " + r.To.String()
	}
	return ""
}
