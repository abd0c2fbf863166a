package state

import (
	"context"
	"encoding/json"
	"time"
)

// Labels encodes name, value pairs as text; without pairs it is empty.
func Labels(pairs ...string) string {
	if len(pairs) == 0 {
		return ""
	}
	text, _ := json.Marshal(pairs) // strings never fail
	return string(text)
}

// Pairs returns the arguments of the [Labels] call that made labels.
func Pairs(labels string) (pairs []string) {
	_ = json.Unmarshal([]byte(labels), &pairs) // text that Labels did not make yields none
	return pairs
}

// Count is an addition to one counter.
type Count struct {
	// Name is the metric's name without the docgauge_ prefix.
	Name string
	// Labels comes from the function Labels.
	Labels string
	Value  int64
}

// Observation adds to one bucket of a histogram.
type Observation struct {
	// Name and Labels are as in Count.
	Name, Labels string
	Bucket       int
	// Count is the number of observations, Sum their sum.
	Count int64
	Sum   time.Duration
}

// Flag is a finding that is either true or false, such as that a key is refused.
type Flag struct {
	Name string
	// Labels comes from the function Labels.
	Labels string
	On     bool
}

// Count adds n to a counter that continues across processes; labels are name, value pairs.
func (db *DB) Count(ctx context.Context, name string, n int64, labels ...string) error {
	return db.Tally(ctx, []Count{{name, Labels(labels...), n}}, nil, nil)
}

// Tally adds to counters and histograms and sets flags, all at once or not at all.
func (db *DB) Tally(ctx context.Context, counts []Count, observed []Observation, flags []Flag) error {
	return db.write(ctx, func(t *tx) {
		t.count(counts...)
		t.observe(observed...)
		for _, f := range flags {
			t.exec(`INSERT OR REPLACE INTO flags VALUES (?,?,?)`, f.Name, f.Labels, f.On)
		}
	})
}

func (t *tx) count(counts ...Count) {
	for _, c := range counts {
		t.exec(`INSERT INTO counters VALUES (?,?,?) ON CONFLICT DO UPDATE SET value = value + excluded.value`,
			c.Name, c.Labels, c.Value)
	}
}

func (t *tx) observe(observed ...Observation) {
	for _, o := range observed {
		t.exec(`INSERT INTO histograms VALUES (?,?,?,?,?)
			ON CONFLICT DO UPDATE SET count = count + excluded.count, sum = sum + excluded.sum`,
			o.Name, o.Labels, o.Bucket, o.Count, o.Sum.Microseconds())
	}
}

// Counters returns all counters, by name and labels.
func (db *DB) Counters(ctx context.Context) ([]Count, error) {
	return list(ctx, db, func(c *Count) []any { return []any{&c.Name, &c.Labels, &c.Value} },
		`SELECT name, labels, value FROM counters ORDER BY name, labels`)
}

// Histograms returns every bucket that is not empty, by name, labels and bucket.
func (db *DB) Histograms(ctx context.Context) ([]Observation, error) {
	return list(ctx, db, func(o *Observation) []any { return []any{&o.Name, &o.Labels, &o.Bucket, &o.Count, &o.Sum} },
		`SELECT name, labels, bucket, count, sum * 1000 FROM histograms ORDER BY name, labels, bucket`) // µs to ns
}

// FlagOn returns the last kept value of a flag, or false.
func (db *DB) FlagOn(ctx context.Context, name string, labels ...string) (on bool, err error) {
	err = db.get(ctx, []any{&on}, `SELECT value FROM flags WHERE name = ? AND labels = ?`, name, Labels(labels...))
	return on, err
}
