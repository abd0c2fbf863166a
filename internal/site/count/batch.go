package count

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Batch has the views of one chunk, and why its other lines are not views.
type Batch struct {
	Lines  int
	Newest int64 // Unix seconds; 0: no line has a time
	Views  []view
	Missed []view // of lines that are left out: of kind Missed and Redirected
	// Shown is the evidence that readers are browsers, at least the first of each on each day.
	Shown   []facts.Shown
	LeftOut map[Reason]int
	Bad     *BadLine
	// Nameless are the lines to which the host has given no id.
	Nameless int
	// Tally has all its lines.
	Tally Tally

	proofs  []proof // of each in Shown
	asked   []negotiated
	clients []*matchedAgent // of each view, if user agents are counted
	prints  []print         // of the views that Repeats compares
	// views and shownBy have the memory of what counts in shards.
	views, shownBy []int32
}

// freeBatches have the memory of batches that have been counted, which is used again.
var freeBatches sync.Pool

// Free gives the memory of views and evidence back.
func (b *Batch) Free() {
	freeBatches.Put(&Batch{Views: b.Views[:0], Shown: b.Shown[:0], proofs: b.proofs[:0], prints: b.prints[:0],
		views: b.views, shownBy: b.shownBy})
}

// Batch reads the lines of a chunk.
func (v *Viewer) Batch(p *logs.Parser, c logs.Lines) Batch {
	b := Batch{Lines: c.TooLong, LeftOut: map[Reason]int{}}
	if free, ok := freeBatches.Get().(*Batch); ok {
		b.Views, v.shown, v.proofs, b.prints = free.Views, free.Shown, free.proofs, free.prints
		b.views, b.shownBy = free.views, free.shownBy
	}
	if c.TooLong > 0 {
		b.LeftOut[Unparsed] = c.TooLong
		b.Bad = &BadLine{Line: c.First - 1, Rule: "is longer than 1 MiB"}
	}
	var l logs.Line
	p.SetFields(c.Fields)
	for number := c.First; len(c.Text) > 0; number++ {
		var line []byte
		line, c.Text, _ = bytes.Cut(c.Text, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			continue
		}
		ok, err := p.Parse(line, &l)
		if !ok && err == nil {
			continue
		}
		b.Lines++
		if err != nil {
			b.LeftOut[Unparsed]++
			b.Nameless++
			if b.Bad == nil {
				b.Bad = &BadLine{Line: number, Rule: err.Error(), Text: mask(line)}
				if v.Pushed != nil {
					b.Bad.Text = lengths(line)
				}
			}
			continue
		}
		if len(l.ID) == 0 {
			b.Nameless++
		}
		v.observe(p.Form, &l)
		if l.Time < v.To {
			b.Newest = max(b.Newest, l.Time)
		}
		if why := v.view(&l); why != "" {
			b.LeftOut[why]++
			continue
		}
		b.Views = append(b.Views, v.current)
		if v.Repeats != nil {
			v.Repeats.sample(&b, &v.current, v.page, l.Time)
		}
		if v.byUserAgent {
			b.clients = append(b.clients, v.last)
		}
	}
	if n := p.EndParts(); n > 0 {
		b.Lines, b.LeftOut[Unparsed] = b.Lines+n, b.LeftOut[Unparsed]+n
	}
	b.Missed, v.missed = v.missed, nil
	b.Shown, b.proofs, v.shown, v.proofs = v.shown, v.proofs, nil, nil
	b.asked, v.negotiated = v.negotiated, nil
	b.Tally, v.tally = v.tally, Tally{}
	b.Tally.keys, b.Tally.browsers = p.Keys(), v.crowd.take()
	return b
}

// BadLine is a line that does not follow the format. Its text is masked: letters are a, digits 0.
type BadLine struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
	Rule   string `json:"rule"`
	Text   string `json:"masked"`
}

// mask returns the form of a line without what it says: letters are a, digits 0.
func mask(line []byte) string {
	const most = 160
	form := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsDigit(r):
			return '0'
		case unicode.IsLetter(r):
			return 'a'
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return '.'
		}
		return r
	}, string(line[:min(len(line), 4*most)]))
	if runes := []rune(form); len(runes) > most {
		form = string(runes[:most]) + "…"
	}
	return form
}

// lengths returns what may be told of a line that was pushed: its length, and of a JSON object the keys and the lengths
// of their values.
func lengths(line []byte) string {
	const most, longest = 40, 40
	text := format.Plural(len(line), "byte")
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return text
	}
	for i, key := range slices.Sorted(maps.Keys(members)) {
		if i == most {
			return text + " …"
		}
		text += fmt.Sprintf(" %.*q:%d", longest, key, len(members[key]))
	}
	return text
}
