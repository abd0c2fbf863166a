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

// text writes OpenMetrics. It is all in one piece: a family begins where the
// one before it ends.
type text struct {
	*bufio.Writer
	step    int64    // seconds
	labels  []string // of every series
	summary Summary
	header  string // of the family, until its first sample
	line    []byte
}

// bufferBytes is how much is written at once.
const bufferBytes = 64 << 10

func writeText(ctx context.Context, out io.Writer, lines []timeline, o Options) (Summary, error) {
	t := text{Writer: bufio.NewWriterSize(out, bufferBytes), step: int64(o.Step / time.Second), labels: o.Labels}
	for _, line := range lines {
		t.summary.Windows += len(line.spans)
	}
	for _, metric := range exporter.Metrics() {
		if of := families[metric.Name]; of != nil {
			if err := t.family(ctx, metric, lines, of); err != nil {
				return t.summary, err
			}
		}
	}
	if _, err := t.WriteString("# EOF\n"); err != nil {
		return t.summary, err
	}
	return t.summary, t.Flush()
}

// family writes a metric; one without a sample has no header either.
func (t *text) family(ctx context.Context, metric exporter.Metric, lines []timeline, of func(timeline) iter.Seq[series]) error {
	t.header = metadata(metric)
	for _, line := range lines {
		own := []string{exporter.LabelProject, line.project, exporter.LabelWindow, string(line.granularity)}
		for s := range of(line) {
			if err := t.series(ctx, metric.Name+labels(own, s.labels, t.labels), s.points); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *text) series(ctx context.Context, name string, points iter.Seq[point]) error {
	before := t.summary.Samples
	for p := range points {
		if err := ctx.Err(); err != nil {
			return err
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

// sample writes one line; value is the line but for its time.
func (t *text) sample(value string, at int64) error {
	t.line = append(append(t.line[:0], t.header...), value...)
	t.line = append(strconv.AppendInt(t.line, at, 10), '\n')
	t.header = ""
	t.summary.Samples++
	_, err := t.Write(t.line)
	return err
}

// escaper is for label values and help texts.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func metadata(m exporter.Metric) string {
	return "# TYPE " + m.Name + " " + m.Type + "\n# HELP " + m.Name + " " + escaper.Replace(m.Help) + "\n"
}

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
