package exporter

import (
	"bytes"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// format is an exposition format without its parameters: every name and label
// we have is written alike under all of them.
type format = expfmt.FormatType

// offered are the formats a scraper can choose from, the preferred first.
var offered = []expfmt.Format{
	expfmt.FmtOpenMetrics_1_0_0,
	expfmt.FmtOpenMetrics_0_0_1,
	expfmt.FmtProtoDelim,
	expfmt.FmtText,
}

// body is a snapshot in one format, encoded and compressed when it is first asked
// for and then kept: encoding a few thousand series takes longer than everything
// else a scrape does.
type body struct {
	plain    func() ([]byte, error)
	deflated func() (deflated, error)
}

// with returns the body followed by rest, in parts.
func (b *body) with(rest []byte, gzip bool) ([][]byte, error) {
	if gzip {
		d, err := b.deflated()
		return d.gzip(rest), err
	}
	text, err := b.plain()
	return [][]byte{text, rest}, err
}

// bodies returns a body for each format offered.
func bodies(families []*dto.MetricFamily) map[format]*body {
	all := map[format]*body{}
	for _, f := range offered {
		plain := sync.OnceValues(func() ([]byte, error) { return encode(families, f, false) })
		all[f.FormatType()] = &body{plain, sync.OnceValues(func() (deflated, error) {
			text, err := plain()
			return deflate(text), err
		})}
	}
	return all
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
