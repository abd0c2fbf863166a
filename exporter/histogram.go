package exporter

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// schema is the schema of the native histograms: schemaBuckets for each power of two.
const (
	schema        = 3
	schemaBuckets = 1 << schema
)

// powers is the range of a histogram's classic bounds: all powers of two from 2^low to
// 2^high seconds. They are also bounds of native buckets, so the classic counts are
// exact sums of these.
type powers struct{ low, high int }

// classic holds the bounds of every histogram.
var classic = map[string]powers{
	prefix + "export_duration_seconds":          {-2, 14}, // 1/4 s to 4.5 h
	prefix + "api_request_duration_seconds":     {-6, 6},  // 1/64 s to 64 s
	prefix + "agent_pull_request_merge_seconds": {6, 22},  // a minute to seven weeks
}

// zeroThreshold is the usual width of the native zero bucket, which stays empty.
const zeroThreshold = prometheus.DefNativeHistogramZeroThreshold

// histogram returns s in native and classic buckets.
func (m Metric) histogram(s *sample) *dto.Histogram {
	native := map[int]int64{}
	var count uint64
	for i, n := range s.buckets {
		native[i] = int64(n)
		count += n
	}
	// The labels are added elsewhere. No error is possible: count is the sum of the buckets.
	constant := prometheus.MustNewConstNativeHistogram(prometheus.NewDesc(m.Name, m.Help, nil, nil),
		count, s.value, native, nil, 0, schema, zeroThreshold, time.Time{})
	var out dto.Metric
	_ = constant.Write(&out)
	out.Histogram.Bucket = s.classic(classic[m.Name])
	// It is not known when the state began to count.
	out.Histogram.CreatedTimestamp = nil
	return out.Histogram
}

// classic returns the cumulative counts at the bounds of p.
func (s *sample) classic(p powers) []*dto.Bucket {
	var buckets []*dto.Bucket
	for power := p.low; power <= p.high; power++ {
		var below uint64
		for i, n := range s.buckets {
			if i <= power*schemaBuckets {
				below += n
			}
		}
		bound := math.Ldexp(1, power)
		buckets = append(buckets, &dto.Bucket{CumulativeCount: &below, UpperBound: &bound})
	}
	return buckets
}
