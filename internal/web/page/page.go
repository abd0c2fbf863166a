// Package page is the status page: one HTML document that shows a snapshot to
// people.
//
// It hides how a snapshot becomes sections and a calendar; package htmlview has
// what it shares with the report. Its invariants: a page is whole or an error,
// never half; it is made once for each snapshot, so a view costs nothing; it
// requests nothing else, from us or from anybody, and runs no script; whatever
// comes from the API or a sink is text; and its size is bounded by the number of
// projects and windows configured.
//
// It reads no state and sends no request. Ages ("3 min ago") count from the moment
// of the snapshot, which the page names.
package page

import (
	"embed"
	"net/http"

	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

var (
	//go:embed *.html
	files embed.FS
	//go:embed style.css
	style string

	kind = htmlview.NewPage(files, style)
	// policy allows the one style sheet inside the page, by its digest, and the icon.
	policy = "default-src 'none'; style-src " + htmlview.Digest(string(kind.Style)) + "; img-src data:; " +
		"base-uri 'none'; form-action 'none'"
)

// Alert says that docgauge is not well, for a reason that no snapshot can have. The zero
// value: it is well.
type Alert struct {
	// Headline is short, Text is the reason. Rule names the alert of Prometheus that the
	// runbook has a section about.
	Headline, Text, Rule string
}

// shown is what a page is made of.
type shown struct {
	snapshot *view.Snapshot // nil: there is none yet
	alert    Alert
}

// New returns the handler of the page, which lives at / alone. Current returns
// the newest snapshot, or nil while there is none; alert is called for each view, and
// may be nil; version is shown as it is. It is safe for concurrent use.
func New(current func() *view.Snapshot, alert func() Alert, version string) http.Handler {
	return &htmlview.Handler[shown]{
		Path: "/", Policy: policy,
		Current: func() shown {
			v := shown{snapshot: current()}
			if alert != nil {
				v.alert = alert()
			}
			return v
		},
		Render: func(v shown, _ string) ([]byte, int, error) {
			if v.snapshot == nil {
				page, err := kind.Render("starting", document{Style: kind.Style, Version: version})
				return page, http.StatusServiceUnavailable, err
			}
			page, err := kind.Render("page", documentOf(v, version))
			return page, http.StatusOK, err
		},
	}
}
