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
	blocks   []*block // of byName
	bodies   map[expfmt.FormatType]func() (body, error)
}

// block is a family in one snapshot and in those after it that have the same series, so
// that only what changed is encoded and compressed again: promhttp, which does that with
// everything at each scrape, takes twenty times as long for a few thousand series.
type block struct {
	samples  []sample
	families []*dto.MetricFamily // one, none without samples
	pieces   map[expfmt.FormatType]func() (piece, error)
}

// piece is a block in one format. deflated are blocks of a gzip stream that refer to
// nothing before them, end on a byte and are not the last.
type piece struct{ plain, deflated []byte }

// body holds all pieces of a snapshot in one format, and the sum and the size of those
// that are plain. deflated begins with the header of the stream.
type body struct {
	plain, deflated [][]byte
	sum             uint32
	size            int
}

// offered are the formats a scraper can choose from, the preferred first. Every name
// and label we have is written alike under all parameters of a format.
var offered = []expfmt.Format{expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtProtoDelim, expfmt.FmtText}

// none stands for the snapshot before the first.
var none = newPublished(Snapshot{}, slices.Repeat([]*block{{}}, len(byName)))

// Publish replaces the snapshot. Concurrent readers see the former one or s, whole; s
// must not be changed afterwards.
func (v *Values) Publish(s Snapshot) {
	blocks := slices.Clone(cmp.Or(v.newest.Load(), none).blocks)
	for i, f := range byName {
		if samples := f.samples(&s); !slices.EqualFunc(samples, blocks[i].samples, sample.equal) {
			blocks[i] = newBlock(f, samples)
		}
	}
	v.newest.Store(newPublished(s, blocks))
}

// inEachFormat returns make for each format, each to be called when it is first asked for.
func inEachFormat[T any](make func(f expfmt.Format) (T, error)) map[expfmt.FormatType]func() (T, error) {
	all := map[expfmt.FormatType]func() (T, error){}
	for _, f := range offered {
		all[f.FormatType()] = sync.OnceValues(func() (T, error) { return make(f) })
	}
	return all
}

func newBlock(f family, samples []sample) *block {
	families := f.gather(samples)
	return &block{samples, families, inEachFormat(func(f expfmt.Format) (piece, error) {
		text, err := encode(families, f, false)
		return piece{text, compress(text, (*flate.Writer).Flush)}, err
	})}
}

func newPublished(s Snapshot, blocks []*block) *published {
	return &published{s, blocks, inEachFormat(func(f expfmt.Format) (body, error) {
		all := body{deflated: [][]byte{gzipHeader}}
		for _, b := range blocks {
			if len(b.samples) == 0 {
				continue
			}
			p, err := b.pieces[f.FormatType()]()
			if err != nil {
				return all, err
			}
			all.plain, all.deflated = append(all.plain, p.plain), append(all.deflated, p.deflated)
			all.sum, all.size = crc32.Update(all.sum, crc32.IEEETable, p.plain), all.size+len(p.plain)
		}
		return all, nil
	})}
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
func (v *Values) gather() (all []*dto.MetricFamily, err error) {
	for _, b := range cmp.Or(v.newest.Load(), none).blocks {
		all = append(all, b.families...)
	}
	now, err := live().Gather()
	return append(all, now...), err
}

// answer returns all metrics, encoded, in parts: those of the newest snapshot, and the
// live ones. Compressed they are one member of gzip, because some clients stop after the
// first.
func (v *Values) answer(f expfmt.Format, gzip bool) ([][]byte, error) {
	now, _ := live().Gather() // what a registry returns beside an error is good
	rest, err := encode(now, f, true)
	if err != nil {
		return nil, err
	}
	b, err := cmp.Or(v.newest.Load(), none).bodies[f.FormatType()]()
	if err != nil || !gzip {
		return append(slices.Clip(b.plain), rest), err
	}
	end := compress(rest, (*flate.Writer).Close)
	end = binary.LittleEndian.AppendUint32(end, crc32.Update(b.sum, crc32.IEEETable, rest))
	end = binary.LittleEndian.AppendUint32(end, uint32(b.size+len(rest)))
	return append(slices.Clip(b.deflated), end), nil
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

// gzipHeader names no file, time or system.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// level is that of least effort that makes families as small as the default level.
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
