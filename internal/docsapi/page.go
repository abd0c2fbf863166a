package docsapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/docgauge/docgauge/internal/analytics"
)

// maxPath is the longest page path, in bytes.
const maxPath = 8 << 10

// field is a set of object members.
type field uint8

const (
	human field = 1 << iota
	ai
	total
	path
	totals
	visitors
	hasMore

	countFields = human | ai | total
	rowFields   = countFields | path
	pageFields  = totals | visitors | hasMore
)

var fieldNames = [...]string{"human", "ai", "total", "path", "totals", "visitors", "hasMore"}

// String lists the members of f.
func (f field) String() string {
	var names []string
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// fieldOf returns the member a quoted JSON name stands for, 0 for an unknown one.
func fieldOf(quoted []byte) field {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted) // the decoder has checked it
	}
	switch string(name) {
	case "human":
		return human
	case "ai":
		return ai
	case "total":
		return total
	case "path":
		return path
	case "totals":
		return totals
	case "visitors":
		return visitors
	case "hasMore":
		return hasMore
	}
	return 0
}

// pageDecoder reads one page token by token. Syntax, UTF-8 and the uniqueness of
// names are the token decoder's; what must be there and of which kind is ours.
type pageDecoder struct {
	body    bytes.Buffer
	tokens  jsontext.Decoder
	page    analytics.Page
	maxRows int
	// paths holds the paths of all rows one after another, ends where each ends:
	// one string is made of them, not one per row.
	paths []byte
	ends  []int
}

var decoders = sync.Pool{New: func() any { return new(pageDecoder) }}

// decodePage reads the answer to a visitors request for at most maxRows rows
// (specification, sections 4.3, 2.2 and 2.3). Unknown members are skipped; an
// empty path is a path. Errors wrap errCut where the body ends too early, else
// errShape, and name the member and the byte. body is not kept.
func decodePage(body []byte, maxRows int) (analytics.Page, error) {
	d := decoders.Get().(*pageDecoder)
	defer d.recycle()
	d.read(body)
	d.page = analytics.Page{Rows: make([]analytics.Row, 0, maxRows)}
	d.maxRows = maxRows
	if err := d.answer(); err != nil {
		return analytics.Page{}, asAnswerError(err)
	}
	d.sharePaths()
	return d.page, nil
}

// read starts on body; the token decoder reads a bytes.Buffer in place.
func (d *pageDecoder) read(body []byte) {
	d.body = *bytes.NewBuffer(body)
	d.tokens.Reset(&d.body)
}

func (d *pageDecoder) recycle() {
	d.read(nil)
	d.page, d.paths, d.ends = analytics.Page{}, d.paths[:0], d.ends[:0]
	decoders.Put(d)
}

// asAnswerError marks err with what it means for the answer.
func asAnswerError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", errCut, err)
	case errors.Is(err, errShape):
		return err
	}
	return fmt.Errorf("%w: %w", errShape, err)
}

// answer reads the whole body: one page and nothing after it.
func (d *pageDecoder) answer() error {
	if err := d.object(pageFields, d.pageField); err != nil {
		return err
	}
	switch _, err := d.tokens.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return d.broken("more data after the page")
}

func (d *pageDecoder) pageField(f field) (err error) {
	switch f {
	case totals:
		var row analytics.Row
		row, err = d.entry(countFields)
		d.page.Totals = analytics.Totals{Human: row.Human, AI: row.AI, Total: row.Total}
	case visitors:
		err = d.rows()
	case hasMore:
		d.page.HasMore, err = d.boolean()
	}
	return err
}

// object reads an object that has all of want; read takes the value of each of
// them, the values of others are skipped.
func (d *pageDecoder) object(want field, read func(field) error) error {
	if err := d.begin(jsontext.KindBeginObject, "an object"); err != nil {
		return err
	}
	var seen field
	for d.tokens.PeekKind() != jsontext.KindEndObject {
		name, err := d.tokens.ReadValue()
		if err != nil {
			return err
		}
		f := fieldOf(name) & want
		seen |= f
		if f == 0 {
			err = d.tokens.SkipValue()
		} else {
			err = read(f)
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return err
	}
	if missing := want &^ seen; missing != 0 {
		return d.broken("missing: " + missing.String())
	}
	return nil
}

func (d *pageDecoder) rows() error {
	if err := d.begin(jsontext.KindBeginArray, "an array"); err != nil {
		return err
	}
	for d.tokens.PeekKind() != jsontext.KindEndArray {
		row, err := d.entry(rowFields)
		if err != nil {
			return err
		}
		if len(d.page.Rows) == d.maxRows {
			return d.broken(fmt.Sprintf("more rows than the %d asked for", d.maxRows))
		}
		d.page.Rows = append(d.page.Rows, row)
		d.ends = append(d.ends, len(d.paths))
	}
	_, err := d.tokens.ReadToken()
	return err
}

// entry reads counts: the totals, or with path among want a row, whose path goes
// to d.paths.
func (d *pageDecoder) entry(want field) (row analytics.Row, err error) {
	err = d.object(want, func(f field) (err error) {
		switch f {
		case human:
			row.Human, err = d.count()
		case ai:
			row.AI, err = d.count()
		case total:
			row.Total, err = d.count()
		case path:
			err = d.path()
		}
		return err
	})
	return row, err
}

// count reads an integer from 0 to 2^63-1, written in digits alone.
func (d *pageDecoder) count() (int64, error) {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return 0, err
	}
	var n int64
	for _, c := range raw {
		digit := int64(c) - '0'
		if digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10 {
			return 0, d.broken("want an integer from 0 to 2^63-1")
		}
		n = n*10 + digit
	}
	return n, nil
}

func (d *pageDecoder) path() error {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return err
	}
	if raw.Kind() != jsontext.KindString {
		return d.broken("want a string")
	}
	before := len(d.paths)
	if bytes.IndexByte(raw, '\\') < 0 {
		d.paths = append(d.paths, raw[1:len(raw)-1]...)
	} else if d.paths, err = jsontext.AppendUnquote(d.paths, raw); err != nil {
		return err
	}
	if len(d.paths)-before > maxPath {
		return d.broken(fmt.Sprintf("a path over %d bytes", maxPath))
	}
	return nil
}

func (d *pageDecoder) boolean() (bool, error) {
	token, err := d.tokens.ReadToken()
	if err != nil {
		return false, err
	}
	if kind := token.Kind(); kind != jsontext.KindTrue && kind != jsontext.KindFalse {
		return false, d.broken("want true or false")
	}
	return token.Bool(), nil
}

// begin reads the token that opens an object or array.
func (d *pageDecoder) begin(kind jsontext.Kind, want string) error {
	token, err := d.tokens.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != kind {
		return d.broken("want " + want)
	}
	return nil
}

// broken names the place of the token or value read last.
func (d *pageDecoder) broken(rule string) error {
	place := string(d.tokens.StackPointer())
	if place == "" {
		place = "the answer"
	}
	return fmt.Errorf("%w: %s, before byte %d: %s", errShape, place, d.tokens.InputOffset(), rule)
}

func (d *pageDecoder) sharePaths() {
	all, from := string(d.paths), 0
	for i, end := range d.ends {
		d.page.Rows[i].Path = all[from:end]
		from = end
	}
}
