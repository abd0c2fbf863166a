package history

import (
	"bufio"
	"context"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/exporter"
)

// text writes OpenMetrics, one family after the other.
type text struct {
	out     *bufio.Writer
	step    int64    // seconds
	labels  []string // of every series
	summary Summary
	header  string // of the family, until its first sample
	line    []byte
}

// bufferBytes is how much is written at once.
const bufferBytes = 64 << 10

func writeText(ctx context.Context, out io.Writer, timelines []timeline, o Options) (Summary, error) {
	t := text{out: bufio.NewWriterSize(out, bufferBytes), step: int64(o.Step / time.Second), labels: o.Labels}
	for _, l := range timelines {
		t.summary.Windows += len(l.spans)
	}
	for _, metric := range exporter.Metrics() {
		if of := families[metric.Name]; of != nil {
			if err := t.family(ctx, metric, timelines, of); err != nil {
				return t.summary, err
			}
		}
	}
	if _, err := t.out.WriteString("# EOF\n"); err != nil {
		return t.summary, err
	}
	return t.summary, t.out.Flush()
}

// family writes a metric; without a sample it has no header either.
func (t *text) family(ctx context.Context, m exporter.Metric, timelines []timeline, of func(timeline) iter.Seq[series]) error {
	t.header = "# TYPE " + m.Name + " " + m.Type + "\n# HELP " + m.Name + " " + escaper.Replace(m.Help) + "\n"
	for _, l := range timelines {
		own := []string{exporter.LabelProject, l.project, exporter.LabelWindow, string(l.granularity)}
		for s := range of(l) {
			if err := t.series(ctx, m.Name+labels(own, s.labels, t.labels), s.points); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *text) series(ctx context.Context, name string, points iter.Seq[point]) error {
	before := t.summary.Samples
	for p := range points {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		value := name + " " + strconv.FormatInt(p.value, 10) + " "
		for at := p.from; at < p.to; at += t.step {
			if err := t.sample(value, at); err != nil {
				return err
			}
		}
	}
	if t.summary.Samples > before {
		t.summary.Series++
	}
	return nil
}

// sample writes one line; value is the line without its time.
func (t *text) sample(value string, at int64) error {
	t.line = append(append(t.line[:0], t.header...), value...)
	t.line = append(strconv.AppendInt(t.line, at, 10), '\n')
	t.header = ""
	t.summary.Samples++
	_, err := t.out.Write(t.line)
	return err
}

// escaper is for label values and help texts.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels writes name, value pairs.
func labels(groups ...[]string) string {
	var b strings.Builder
	between := "{"
	for _, pairs := range groups {
		for pair := range slices.Chunk(pairs, 2) {
			b.WriteString(between + pair[0] + `="` + escaper.Replace(exporter.Label(pair[1])) + `"`)
			between = ","
		}
	}
	return b.String() + "}"
}
