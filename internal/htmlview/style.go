package htmlview

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
)

var (
	// Style is the plain part of every page's style sheet: colours for light, dark
	// and print, letters, links, tables, the head and the foot.
	//
	//go:embed style.css
	Style string

	// Files has the templates that pages share: icon, brand, clock, age.
	//
	//go:embed *.html
	Files embed.FS
)

// Digest is what a content security policy calls a style sheet or a script that
// stands in the page.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
