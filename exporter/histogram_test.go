package exporter_test

import (
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/view"
)

func TestBucket(t *testing.T) {
	for d, want := range map[time.Duration]int{
		time.Second:            0,
		time.Second + 1:        1,
		time.Second - 1:        0,
		2 * time.Second:        8,
		2*time.Second + 1:      9,
		1090507732:             1, // just below 2^(1/8) s
		1090507733:             2, // just above
		500 * time.Millisecond: -8,
		1024 * time.Second:     80,
		1:                      -239,
		0:                      -239,
		-time.Hour:             -239,
		math.MinInt64:          -239,
		math.MaxInt64:          265,
	} {
		if got := view.Bucket(d); got != want {
			t.Errorf("Bucket(%d ns) = %d, want %d", d, got, want)
		}
	}
}

// Every duration lies above the lower bound of its bucket and not above the upper.
func TestBucketBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "d") >> rapid.IntRange(0, 62).Draw(t, "shift"))
		d = max(d, 1)
		i := view.Bucket(d)
		if low, high := math.Exp2(float64(i-1)/8), math.Exp2(float64(i)/8); d.Seconds() <= low*(1-1e-15) ||
			d.Seconds() > high*(1+1e-15) {
			t.Fatalf("%d ns is in bucket %d, (%v, %v] s", d, i, low, high)
		}
	})
}

// The protobuf format has both kinds of buckets, and they agree.
func TestHistogramBothKinds(t *testing.T) {
	_, body := scrape(t, publish(rich()), acceptProtobuf, "gzip")
	families := decode(t, body)
	for name, bounds := range map[string]int{"docgauge_export_duration_seconds": 17,
		"docgauge_api_request_duration_seconds": 13} {
		h := families[name].GetMetric()[0].Histogram
		if h.GetSampleCount() != 3 || h.GetSchema() != 3 || h.CreatedTimestamp != nil || h.GetZeroThreshold() <= 0 {
			t.Errorf("%s: %v", name, h)
		}
		if len(h.Bucket) != bounds {
			t.Errorf("%s has %d classic bounds, want %d", name, len(h.Bucket), bounds)
		}
		for _, classic := range h.Bucket {
			if below := nativeBelow(h, classic.GetUpperBound()); below != classic.GetCumulativeCount() {
				t.Errorf("%s: %d up to %v s by the classic buckets, %d by the native ones", name,
					classic.GetCumulativeCount(), classic.GetUpperBound(), below)
			}
		}
		if all := nativeBelow(h, math.Inf(1)); all != h.GetSampleCount() {
			t.Errorf("%s: %d in native buckets, %d observed", name, all, h.GetSampleCount())
		}
	}
}

// nativeBelow counts what is in native buckets that end at bound or before.
func nativeBelow(h *dto.Histogram, bound float64) uint64 {
	var below uint64
	var count int64
	index, delta := 0, 0
	for _, span := range h.PositiveSpan {
		index += int(span.GetOffset())
		for range span.GetLength() {
			count += h.PositiveDelta[delta]
			if math.Exp2(float64(index)/8) <= bound {
				below += uint64(count)
			}
			index++
			delta++
		}
	}
	return below
}

func TestHistogramBeforeTheFirst(t *testing.T) {
	_, body := scrape(t, publish(view.Snapshot{}), acceptProtobuf, "")
	families := decode(t, body)
	for _, name := range []string{"docgauge_export_duration_seconds", "docgauge_api_request_duration_seconds"} {
		h := families[name].GetMetric()[0].Histogram
		if h.GetSampleCount() != 0 || len(h.Bucket) == 0 || h.GetZeroThreshold() <= 0 {
			t.Errorf("%s: %v", name, h)
		}
	}
}
