package exporter

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/docgauge/docgauge/internal/view"
)

// Values holds the newest snapshot and its metrics. The zero value holds none
// and is ready for use, by any number of goroutines.
type Values struct {
	newest atomic.Pointer[published]
	asked  sync.Map // the formats (expfmt.FormatType) that scrapers have asked for

	mu     sync.Mutex // held while a snapshot is encoded and published
	reload *view.Reload
}

// published is a snapshot with its metrics, each format encoded and compressed once:
// promhttp, which does both at each scrape, takes twenty times as long for a few thousand series.
type published struct {
	snapshot view.Snapshot
	pages    map[expfmt.FormatType]func() (page, error)
}

// page is the metrics of a snapshot in one format, without an end. deflated is part of a gzip
// stream: it ends on a byte and is not the last.
type page struct{ plain, deflated []byte }

// offered are the formats a scraper can choose from, the preferred first. Every name
// and label we have is written alike under all parameters of a format.
var offered = []expfmt.Format{
	expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtProtoDelim, expfmt.FmtText,
}

// Publish replaces the snapshot. Concurrent readers see the former one or s, whole; s
// must not be changed afterwards. It is encoded at once in the formats that were asked for
// before, so that the next scrape does not wait for it.
func (v *Values) Publish(s view.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.publish(s)
}

// Reloaded shows how a reload went, at once and in every later snapshot.
func (v *Values) Reloaded(successful bool, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := view.Reload{Successful: successful, LastSuccess: at}
	if !successful && v.reload != nil {
		now.LastSuccess = v.reload.LastSuccess
	}
	v.reload = &now
	if newest := v.Load(); newest != nil {
		v.publish(*newest)
	}
}

// publish is called with the lock held.
func (v *Values) publish(s view.Snapshot) {
	s.Reload = cmp.Or(v.reload, s.Reload)
	families := sync.OnceValue(func() []*dto.MetricFamily { return gather(&s) })
	p := &published{s, map[expfmt.FormatType]func() (page, error){}}
	for _, format := range offered {
		p.pages[format.FormatType()] = sync.OnceValues(func() (page, error) {
			text, err := encode(families(), format, false)
			return page{text, compress(text, (*flate.Writer).Flush)}, err
		})
	}
	v.asked.Range(func(format, _ any) bool {
		_, _ = p.pages[format.(expfmt.FormatType)]() // a scrape answers with the error
		return true
	})
	v.newest.Store(p)
}

// Load returns the newest snapshot, nil before the first. It must not be changed.
func (v *Values) Load() *view.Snapshot {
	p := v.newest.Load()
	if p == nil {
		return nil
	}
	return &p.snapshot
}

// live is the registry of the runtime (go_) and the process (process_).
var live = sync.OnceValue(func() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
})

// maxInFlight bounds the scrapes that are answered at a time, so that slow scrapers
// cannot pile up.
const maxInFlight = 64

// Handler serves /metrics: OpenMetrics, protobuf or text as the scraper prefers,
// gzip if it accepts that. The parameter name[] picks families. Scrapes beyond
// maxInFlight get 503.
func (v *Values) Handler() http.Handler {
	slots := make(chan struct{}, maxInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, "too many scrapes at a time, try again later", http.StatusServiceUnavailable)
			return
		}
		f, gzip := expfmt.NegotiateAccept(r.Header, offered...), acceptsGzip(r.Header)
		parts, err := v.answer(f, gzip, r.URL.Query()["name[]"])
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
	})
}

// answer returns the metrics in names, or all if names is empty, encoded, in parts: the newest snapshot, then the
// live metrics. Compressed they are one member of gzip, because some clients stop after the first.
func (v *Values) answer(f expfmt.Format, gzip bool, names []string) ([][]byte, error) {
	v.asked.LoadOrStore(f.FormatType(), nil)
	var own page
	rest, _ := live().Gather() // the metrics that a registry returns beside an error are valid
	switch p := v.newest.Load(); {
	case p != nil && names == nil:
		var err error
		if own, err = p.pages[f.FormatType()](); err != nil {
			return nil, err
		}
	case p != nil:
		rest = append(gather(&p.snapshot), rest...)
	}
	if names != nil {
		rest = slices.DeleteFunc(rest, func(f *dto.MetricFamily) bool { return !slices.Contains(names, f.GetName()) })
	}
	end, err := encode(rest, f, true)
	if err != nil || !gzip {
		return [][]byte{own.plain, end}, err
	}
	sum := crc32.Update(crc32.ChecksumIEEE(own.plain), crc32.IEEETable, end)
	trailer := binary.LittleEndian.AppendUint32(compress(end, (*flate.Writer).Close), sum)
	trailer = binary.LittleEndian.AppendUint32(trailer, uint32(len(own.plain)+len(end)))
	return [][]byte{gzipHeader, own.deflated, trailer}, nil
}

// encode returns families in format f; whole means that nothing will follow.
func encode(families []*dto.MetricFamily, f expfmt.Format, whole bool) ([]byte, error) {
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, f)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, err
		}
	}
	if closer, ok := encoder.(expfmt.Closer); ok && whole {
		if err := closer.Close(); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// acceptsGzip reports whether the client that sent the header accepts gzip. A quality
// of zero refuses it.
func acceptsGzip(h http.Header) bool {
	for offer := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
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

// gzipHeader names no file, time or system.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// level is the fastest level that makes families as small as the default level does.
const level = 4

// compressors are kept because each has most of a megabyte.
var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, level) // fails for an unknown level only
	return w
}}

// compress returns text as blocks that refer to nothing before them; end ends the last
// of them.
func compress(text []byte, end func(*flate.Writer) error) []byte {
	var out bytes.Buffer
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&out)
	_, _ = w.Write(text) // memory takes every write
	_ = end(w)
	return out.Bytes()
}
