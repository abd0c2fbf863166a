package serve

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/facts"
)

//go:embed status.html
var statusHTML string

var statusPage = template.Must(template.New("status").
	Funcs(template.FuncMap{"commas": format.Commas[int64]}).Parse(statusHTML))

// All is how many lines of a source were read.
func (s sourceStatus) All() (n int64) {
	for _, one := range s.Lines {
		n += one
	}
	return n
}

// Newest is the time of the newest line.
func (s sourceStatus) Newest() time.Time { return time.Unix(s.Watermark, 0).UTC() }

// openEpoch is an epoch as the page shows it.
type openEpoch struct {
	facts.OpenEpoch
	Last  analytics.Date
	Until time.Time
}

// Page shows people how a site's logs are read. It reads memory alone.
func (e *Exposition) Page(now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var shown struct {
			Now      time.Time
			CaughtUp bool
			Failed   error
			Sources  []sourceStatus
			Epochs   []openEpoch
		}
		shown.Now = now().UTC()
		shown.Sources, shown.CaughtUp = e.collector.Sources()
		shown.Failed = e.collector.Failed()
		if open := e.open.Load(); open != nil {
			for _, o := range *open {
				shown.Epochs = append(shown.Epochs, openEpoch{o, o.Epoch.To() - 1, latest(o)})
			}
		}
		var page bytes.Buffer
		if err := statusPage.Execute(&page, shown); err != nil {
			http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(page.Bytes()) // the client may have gone
	})
}
