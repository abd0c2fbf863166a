package history

import (
	"bufio"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/exporter"
)

// bufferBytes is how much is written at once.
const bufferBytes = 64 << 10

// textWriter writes samples as OpenMetrics text.
type textWriter struct {
	out    *bufio.Writer
	header string   // of the family, until its first sample
	labels []string // of the newest series, and its name with them
	name   string
	line   []byte
}

// escaper is for label values and help texts.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (t *textWriter) write(s exporter.Sample) error {
	if t.labels == nil || &t.labels[0] != &s.Labels[0] {
		t.labels, t.name = s.Labels, s.Labels[1]
		between := "{"
		for pair := range slices.Chunk(s.Labels[2:], 2) {
			t.name += between + pair[0] + `="` + escaper.Replace(pair[1]) + `"`
			between = ","
		}
		t.name += "} "
	}
	t.line = append(append(t.line[:0], t.header...), t.name...)
	t.line = append(strconv.AppendFloat(t.line, s.Value, 'f', -1, 64), ' ')
	t.line = append(strconv.AppendInt(t.line, s.At, 10), '\n')
	t.header = ""
	_, err := t.out.Write(t.line)
	return err
}
