package exporter

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Values holds the newest snapshot and its metrics. The zero value holds none
// and is ready for use, by any number of goroutines.
type Values struct{ newest atomic.Pointer[published] }

// published is a snapshot with its metrics. Nobody changes it.
type published struct {
	snapshot Snapshot
	families []*dto.MetricFamily
	err      error
	bodies   map[expfmt.FormatType]*body
}

// body is the metrics of a snapshot in one format, encoded and compressed when first
// requested and then kept: promhttp, which encodes at each scrape, takes twenty times
// as long for a few thousand series.
type body struct {
	plain    func() ([]byte, error)
	deflated func() (deflated, error)
}

// offered are the formats a scraper can choose from, the preferred first. Every name
// and label we have is written alike under all parameters of a format.
var offered = []expfmt.Format{expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtProtoDelim, expfmt.FmtText}

func bodies(families []*dto.MetricFamily) map[expfmt.FormatType]*body {
	all := map[expfmt.FormatType]*body{}
	for _, f := range offered {
		plain := sync.OnceValues(func() ([]byte, error) { return encode(families, f, false) })
		all[f.FormatType()] = &body{plain, sync.OnceValues(func() (deflated, error) {
			text, err := plain()
			return deflate(text), err
		})}
	}
	return all
}

// none stands for the snapshot before the first.
var none = &published{bodies: bodies(nil)}

// Publish replaces the snapshot. Concurrent readers see the former one or s, whole; s
// must not be changed afterwards.
func (v *Values) Publish(s Snapshot) {
	p := &published{snapshot: s}
	p.families, p.err = gather(&p.snapshot)
	p.bodies = bodies(p.families)
	v.newest.Store(p)
}

// Load returns the newest snapshot, nil before the first. It must not be changed.
func (v *Values) Load() *Snapshot {
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
	})
}

// gather returns the metrics of the newest snapshot, and after them, in alphabetical
// order as they are, the live ones of the runtime and the process.
func (v *Values) gather() ([]*dto.MetricFamily, error) {
	p := cmp.Or(v.newest.Load(), none)
	now, err := live().Gather()
	return append(p.families[:len(p.families):len(p.families)], now...), errors.Join(p.err, err)
}

// answer returns all metrics, encoded, in parts: those of the newest snapshot, and the
// live ones.
func (v *Values) answer(f expfmt.Format, gzip bool) ([][]byte, error) {
	now, _ := live().Gather() // what a registry returns beside an error is good
	rest, err := encode(now, f, true)
	if err != nil {
		return nil, err
	}
	b := cmp.Or(v.newest.Load(), none).bodies[f.FormatType()]
	if gzip {
		d, err := b.deflated()
		return d.gzip(rest), err
	}
	text, err := b.plain()
	return [][]byte{text, rest}, err
}

// encode returns families in format f; whole says that nothing will follow.
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

// AcceptsGzip reports whether the client that sent the header accepts gzip. A quality
// of zero refuses it.
func AcceptsGzip(h http.Header) bool {
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

// deflated is the beginning of a gzip stream: blocks that end on a byte and are
// not the last, so that more can be compressed separately and follow.
type deflated struct {
	blocks []byte
	sum    uint32 // of the uncompressed bytes
	size   int    // of the uncompressed bytes
}

func deflate(text []byte) deflated {
	var blocks bytes.Buffer
	compress(&blocks, text, (*flate.Writer).Flush)
	return deflated{blocks.Bytes(), crc32.ChecksumIEEE(text), len(text)}
}

// gzipHeader names no file, time or system.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// gzip returns the parts of one stream that holds d and then rest. It is a single
// member, because some clients stop after the first.
func (d deflated) gzip(rest []byte) [][]byte {
	var end bytes.Buffer
	compress(&end, rest, (*flate.Writer).Close)
	tail := binary.LittleEndian.AppendUint32(end.Bytes(), crc32.Update(d.sum, crc32.IEEETable, rest))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(d.size+len(rest)))
	return [][]byte{gzipHeader, d.blocks, tail}
}

// compressors are kept because each has most of a megabyte.
var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression) // fails for an unknown level only
	return w
}}

// compress writes text as blocks that refer to nothing before them; end ends the last
// of them.
func compress(out *bytes.Buffer, text []byte, end func(*flate.Writer) error) {
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(out)
	_, _ = w.Write(text) // memory takes every write
	_ = end(w)
}
