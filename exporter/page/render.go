package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"

	"github.com/docgauge/docgauge/exporter"
)

var (
	//go:embed *.html
	files embed.FS
	//go:embed style.css
	style string

	templates = template.Must(template.ParseFS(files, "*.html"))
	// policy allows the one style sheet inside the page, by its hash, and the icon.
	policy = "default-src 'none'; style-src '" + digest(style) + "'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// render makes the whole page; s is nil while there is no snapshot.
func render(s *exporter.Snapshot, version string) ([]byte, error) {
	d := document{Style: template.CSS(style), Version: version} //nolint:gosec // our own file
	name := "waiting"
	if s != nil {
		d.fill(s)
		name = "page"
	}
	var out bytes.Buffer
	err := templates.ExecuteTemplate(&out, name, d)
	return out.Bytes(), err
}
