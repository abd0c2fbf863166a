package remotewrite

import (
	"cmp"
	"math"
	"slices"
	"strings"

	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/docgauge/docgauge/exporter"
)

// point is a sample of a known series.
type point struct {
	time  int64 // milliseconds since 1970
	value float64
}

// series are the samples of one series, in order of time.
type series struct {
	labels []string
	help   string
	points []point
}

// batch is the content of one request.
type batch struct {
	series  []*series
	byName  map[string]*series
	samples int
}

func newBatch() *batch { return &batch{byName: map[string]*series{}} }

func (b *batch) add(s exporter.Sample) {
	name := strings.Join(s.Labels, "\xff")
	of := b.byName[name]
	if of == nil {
		// The protocol wants labels sorted by name, without empty values.
		pairs := slices.Collect(slices.Chunk(s.Labels, 2))
		pairs = slices.DeleteFunc(pairs, func(pair []string) bool { return pair[1] == "" })
		slices.SortFunc(pairs, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		of = &series{labels: slices.Concat(pairs...), help: s.Help}
		b.byName[name] = of
		b.series = append(b.series, of)
	}
	of.points = append(of.points, point{1000 * s.At, s.Value})
	b.samples++
}

// times are the times of the batch, in order.
func (b *batch) times() (all []int64) {
	for _, s := range b.series {
		for _, p := range s.points {
			all = append(all, p.time)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// halves cuts the batch in the middle of its times; older is empty if it has one time.
func (b *batch) halves() (older, newer *batch) {
	times := b.times()
	middle := times[len(times)/2]
	older, newer = newBatch(), newBatch()
	for _, s := range b.series {
		at, _ := slices.BinarySearchFunc(s.points, middle, func(p point, t int64) int { return cmp.Compare(p.time, t) })
		older.append(s, s.points[:at])
		newer.append(s, s.points[at:])
	}
	return older, newer
}

func (b *batch) append(s *series, points []point) {
	if len(points) > 0 {
		b.series = append(b.series, &series{s.labels, s.help, points})
		b.samples += len(points)
	}
}

// v2 is the batch as a message of protocol 2.0.
func (b *batch) v2() *writev2.Request {
	symbols := writev2.NewSymbolTable()
	request := &writev2.Request{}
	for _, s := range b.series {
		out := &writev2.TimeSeries{
			LabelsRefs: symbols.SymbolizeLabels(s.labels, nil),
			Metadata:   &writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: symbols.Symbolize(s.help)},
		}
		for _, p := range s.points {
			out.Samples = append(out.Samples, &writev2.Sample{Value: p.value, Timestamp: p.time})
		}
		request.Timeseries = append(request.Timeseries, out)
	}
	request.Symbols = symbols.Symbols()
	return request
}

// v1 is an encoded prometheus.WriteRequest, the message of protocol 1.0. The client
// library has no type for it, and Prometheus' own, prompb, would add 1.3 MB with another
// protobuf library. These are the methods with which the client takes a message that
// encodes itself.
type v1 []byte

// SizeVT returns the length of the message.
func (m v1) SizeVT() int { return len(m) }

// MarshalToSizedBufferVT writes the message into p, which has its length.
func (m v1) MarshalToSizedBufferVT(p []byte) (int, error) { return copy(p, m), nil }

// v1 encodes WriteRequest{timeseries = 1: {labels = 1: {name = 1, value = 2},
// samples = 2: {value = 1, timestamp = 2}}}.
func (b *batch) v1() (message v1) {
	var one, part []byte
	for _, s := range b.series {
		one = one[:0]
		for pair := range slices.Chunk(s.labels, 2) {
			part = protowire.AppendString(protowire.AppendTag(part[:0], 1, protowire.BytesType), pair[0])
			part = protowire.AppendString(protowire.AppendTag(part, 2, protowire.BytesType), pair[1])
			one = protowire.AppendBytes(protowire.AppendTag(one, 1, protowire.BytesType), part)
		}
		for _, p := range s.points {
			part = protowire.AppendFixed64(protowire.AppendTag(part[:0], 1, protowire.Fixed64Type),
				math.Float64bits(p.value))
			part = protowire.AppendVarint(protowire.AppendTag(part, 2, protowire.VarintType), uint64(p.time))
			one = protowire.AppendBytes(protowire.AppendTag(one, 2, protowire.BytesType), part)
		}
		message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), one)
	}
	return message
}
