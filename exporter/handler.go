package exporter

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// maxInFlight bounds the scrapes that are answered at a time, so that scrapers
// that are slow to read cannot pile up.
const maxInFlight = 64

// Handler serves /metrics: OpenMetrics, protobuf or text as the scraper prefers,
// gzip where it takes it. The parameter name[] picks families. A scrape above
// maxInFlight gets 503.
func (v *Values) Handler() http.Handler {
	picked := promhttp.HandlerFor(prometheus.GathererFunc(v.gather), promhttp.HandlerOpts{
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
	slots := make(chan struct{}, maxInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, "too many scrapes at a time, try again later", http.StatusServiceUnavailable)
			return
		}
		if r.URL.Query().Has("name[]") {
			picked.ServeHTTP(w, r)
			return
		}
		v.scrape(w, r)
	})
}

// scrape answers with the newest snapshot and the live metrics.
func (v *Values) scrape(w http.ResponseWriter, r *http.Request) {
	f, gzip := expfmt.NegotiateAccept(r.Header, offered...), AcceptsGzip(r.Header)
	parts, err := v.answer(f, gzip)
	if err != nil {
		http.Error(w, "encode metrics: "+err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", string(f))
	header.Set("Vary", "Accept, Accept-Encoding")
	if gzip {
		header.Set("Content-Encoding", "gzip")
	}
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return // the scraper went away
		}
	}
}

// answer returns all metrics, encoded, in parts.
func (v *Values) answer(f expfmt.Format, gzip bool) ([][]byte, error) {
	// What a registry returns beside an error is good.
	now, _ := live().Gather()
	rest, err := encode(now, f, true)
	if err != nil {
		return nil, err
	}
	return v.load().bodies[f.FormatType()].with(rest, gzip)
}

// AcceptsGzip reports whether the client that sent the header takes gzip. A quality
// of zero refuses it.
func AcceptsGzip(h http.Header) bool {
	for _, offer := range strings.Split(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, parameter, _ := strings.Cut(offer, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		quality, found := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
		value, err := strconv.ParseFloat(quality, 64)
		return !found || err == nil && value > 0
	}
	return false
}
