package view

import (
	"math"
	"sort"
	"time"
)

// schemaBuckets is the number of buckets to each power of two, in a native histogram of schema 3.
const schemaBuckets = 8

// fractions are the bounds between 1/2 and 1: 2^(i/8-1).
var fractions = func() (f [schemaBuckets]float64) {
	for i := range f {
		f[i] = math.Exp2(float64(i)/schemaBuckets - 1)
	}
	return f
}()

// Bucket returns the bucket of a native histogram of schema 3 that d falls into:
// the i with 2^((i-1)/8) s < d <= 2^(i/8) s. A duration that is not positive, from a
// clock that stepped back, counts as a nanosecond.
func Bucket(d time.Duration) int {
	fraction, exponent := math.Frexp(max(d, 1).Seconds())
	return sort.SearchFloat64s(fractions[:], fraction) + (exponent-1)*schemaBuckets
}
