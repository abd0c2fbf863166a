package cli

import (
	"cmp"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/dustin/go-humanize"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/schedule"
)

var projectForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// secret is a value that no formatting prints.
type secret string

func (secret) String() string               { return "[redacted]" }
func (secret) GoString() string             { return "[redacted]" }
func (secret) LogValue() slog.Value         { return slog.StringValue("[redacted]") }
func (secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

type dateValue struct {
	date analytics.Date
	set  bool
}

func (d *dateValue) Decode(s string) error {
	v, err := analytics.ParseDate(s)
	*d = dateValue{v, err == nil}
	return err
}

type projects []string

func (ps *projects) Decode(s string) error {
	var out projects
	for part := range strings.SplitSeq(s, ",") {
		id := strings.TrimSpace(part)
		if !projectForm.MatchString(id) {
			return fmt.Errorf("project id %.140q: want 1 to 128 letters, digits, - or _", id)
		}
		if slices.Contains(out, id) {
			return fmt.Errorf("project id %q: listed twice", id)
		}
		out = append(out, id)
	}
	*ps = out
	return nil
}

type windows []analytics.Spec

func (w *windows) Decode(s string) error {
	var out windows
	for part := range strings.SplitSeq(s, ",") {
		spec, err := analytics.ParseSpec(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(out, func(o analytics.Spec) bool { return o.Granularity == spec.Granularity }) {
			return fmt.Errorf("granularity %q: listed twice", spec.Granularity)
		}
		out = append(out, spec)
	}
	*w = out
	return nil
}

type openSet []analytics.Granularity

func (o *openSet) Decode(s string) error {
	*o = openSet{}
	if strings.TrimSpace(s) == "" {
		return nil
	}
	for part := range strings.SplitSeq(s, ",") {
		g := analytics.Granularity(strings.TrimSpace(part))
		if g != analytics.Day && g != analytics.Week && g != analytics.Month {
			return fmt.Errorf("open window %q: want day, week or month", g)
		}
		if slices.Contains(*o, g) {
			return fmt.Errorf("open window %q: listed twice", g)
		}
		*o = append(*o, g)
	}
	return nil
}

type period time.Duration

func (d *period) Decode(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%.40q: want a duration like 90s, 15m or 72h", s)
	}
	*d = period(v)
	return nil
}

type count int

func (n *count) Decode(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < 0 || v > 1_000_000 {
		return fmt.Errorf("%.40q: want a whole number from 0 to 1000000", s)
	}
	*n = count(v)
	return nil
}

type byteSize int64

func (b *byteSize) Decode(s string) error {
	v, err := humanize.ParseBytes(s)
	if err != nil || v == 0 || v > 1<<60 {
		return fmt.Errorf("%.40q: want a size like 500MiB or 2GiB", s)
	}
	*b = byteSize(v)
	return nil
}

// The names of the sinks.
const (
	sinkParquet    = "parquet"
	sinkClickHouse = "clickhouse"
)

type sinkNames []string

func (n *sinkNames) Decode(s string) error {
	*n = nil
	for part := range strings.SplitSeq(s, ",") {
		name := strings.TrimSpace(part)
		if name != sinkParquet && name != sinkClickHouse {
			return fmt.Errorf("sink %.40q: want parquet, clickhouse or both", name)
		}
		if slices.Contains(*n, name) {
			return fmt.Errorf("sink %q: listed twice", name)
		}
		*n = append(*n, name)
	}
	return nil
}

type logFormat string

func (f *logFormat) Decode(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("%.40q: want text or json", s)
	}
	*f = logFormat(s)
	return nil
}

// didYouMean names the nearest known variable, if one is near.
func didYouMean(name string, known []string) string {
	edits := func(k string) int { return levenshtein.Distance(name, k, nil) }
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(edits(a), edits(b)) })
	if edits(best) > min(3, len(best)-1) {
		return "; `docgauge --help` lists those there are"
	}
	return "; did you mean " + prefix + "_" + best + "?"
}

type cronSpec struct{ schedule.Cron }

func (c *cronSpec) Decode(s string) (err error) {
	c.Cron, err = schedule.ParseCron(s)
	return err
}

type newState string

func (n *newState) Decode(s string) error {
	switch jobs.NewState(s) {
	case jobs.Refuse, jobs.Submit, jobs.Skip:
		*n = newState(s)
		return nil
	}
	return fmt.Errorf("%.40q: want refuse, submit or skip", s)
}
