package page

import (
	"bytes"
	"compress/gzip"
	"embed"
	"html/template"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/htmlview"
)

var (
	//go:embed *.html
	files embed.FS
	//go:embed style.css
	own   string
	style = htmlview.Style + own

	templates = template.Must(template.Must(template.ParseFS(htmlview.Files, "*.html")).ParseFS(files, "*.html"))
	// policy allows the one style sheet inside the page, by its hash, and the icon.
	policy = "default-src 'none'; style-src '" + htmlview.Digest(style) + "'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// render makes the whole page; s is nil while there is no snapshot.
func render(s *exporter.Snapshot, version string) (rendered, error) {
	d := document{Style: template.CSS(style), Version: version}
	name := "waiting"
	if s != nil {
		d.fill(s)
		name = "page"
	}
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, d); err != nil {
		return rendered{}, err
	}
	plain := bytes.ToValidUTF8(out.Bytes(), []byte("\uFFFD")) // paths can hold any byte
	small, err := compress(plain)
	return rendered{plain, small}, err
}

func compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}
