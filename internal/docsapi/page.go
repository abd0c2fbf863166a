package docsapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// maxPath is the longest page path, in bytes, after escaping.
	maxPath = 1 << 20
	// maxPaths bounds the paths of one page together: a stray byte takes four when
	// it is kept, so that a body of maxBody could hold more.
	maxPaths = maxBody
)

// field is a set of object members.
type field uint16

const (
	human field = 1 << iota
	ai
	total
	path
	totals
	visitors // the rows of a page of visitors, or a count of agents
	hasMore
	agents
	agent
	class
	audience
	found
	requests

	countFields = human | ai | total
	rowFields   = countFields | path
	agentFields = agent | class | audience | visitors | requests
	pageFields  = totals | hasMore // and the rows
)

var fieldNames = [...]string{"human", "ai", "total", "path", "totals", "visitors", "hasMore", "agents", "agent",
	"class", "audience", "found", "requests"}

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

// fieldOf returns the member that a quoted JSON name stands for, 0 for an unknown
// one.
func fieldOf(quoted []byte) field {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted) // the decoder has checked it
	}
	for i, known := range fieldNames {
		if string(name) == known {
			return 1 << i
		}
	}
	return 0
}

// pageDecoder reads one page token by token, because decoding into structs needs 1.6 times the CPU
// time. The token decoder checks the syntax and that no name comes twice; this type checks which
// members are there, and their kinds. Strings may contain what is not Unicode (see path).
type pageDecoder struct {
	tokens  *jsontext.Decoder
	hasMore bool
	maxRows int
	// paths holds the paths of all rows one after another, and ends where each of them ends:
	// they become one string.
	paths []byte
	ends  []int
}

// decodePage reads the answer to a visitors request for at most maxRows rows (specification,
// sections 4.3, 2.2 and 2.3). Unknown members are skipped; an empty path is a path. Errors wrap
// errCut where the body ends too early, else errShape, name the member and the byte, and are
// malformed where the body is still a page. body is not kept.
func decodePage(body []byte, maxRows int) (page analytics.Page, err error) {
	d := newPageDecoder(body, maxRows)
	page.Rows = make([]analytics.Row, 0, maxRows)
	err = d.decode(body, visitors, func() error {
		row, err := d.entry(countFields)
		page.Totals = analytics.Totals{Human: row.Human, AI: row.AI, Total: row.Total}
		return err
	}, func() error {
		row, err := d.entry(rowFields)
		page.Rows = append(page.Rows, row)
		return err
	})
	if err != nil {
		return analytics.Page{}, err
	}
	d.givePaths(func(i int, path string) { page.Rows[i].Path = path })
	page.HasMore = d.hasMore
	return page, nil
}

func newPageDecoder(body []byte, maxRows int) *pageDecoder {
	return &pageDecoder{
		tokens:  jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true)),
		maxRows: maxRows, paths: make([]byte, 0, len(body)/2),
	}
}

// decode reads a page of any report, whose rows are the member of that name: site reads the totals, row a
// row, whose path goes to d.paths.
func (d *pageDecoder) decode(body []byte, rows field, site, row func() error) error {
	err := d.object(pageFields|rows, func(f field) error {
		switch f {
		case totals:
			return site()
		case rows:
			return d.rows(row)
		}
		var err error
		d.hasMore, err = d.truth()
		return err
	})
	if err == nil {
		_, err = d.tokens.ReadToken()
		if err == nil {
			err = d.broken("more data after the page")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		err = asAnswerError(err)
		if errors.Is(err, errShape) && isPage(body) {
			err = malformed(err)
		}
	}
	return err
}

// givePaths calls set with the path of each row.
func (d *pageDecoder) givePaths(set func(i int, path string)) {
	paths, from := string(d.paths), 0
	for i, end := range d.ends {
		set(i, paths[from:end])
		from = end
	}
}

// isPage reports whether body is a page of a report, however bad its values:
// an object with at least two of a page's three members, or, where the object
// breaks off, with one before that.
func isPage(body []byte) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return false
	}
	var seen field
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadValue()
		if err == nil {
			seen |= fieldOf(name) & (pageFields | visitors | agents)
			err = d.SkipValue()
		}
		if err != nil {
			return seen != 0
		}
	}
	return bits.OnesCount16(uint16(seen)) >= 2
}

// object reads an object that must have all members of want; read takes the value
// of each of them. The values of other members are skipped.
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

func (d *pageDecoder) rows(row func() error) error {
	return d.array(func() error {
		if err := row(); err != nil {
			return err
		}
		if len(d.ends) == d.maxRows {
			return d.broken(fmt.Sprintf("more rows than the %d asked for", d.maxRows))
		}
		d.ends = append(d.ends, len(d.paths))
		return nil
	})
}

// array reads an array, of which element reads each.
func (d *pageDecoder) array(element func() error) error {
	if err := d.begin(jsontext.KindBeginArray, "an array"); err != nil {
		return err
	}
	for d.tokens.PeekKind() != jsontext.KindEndArray {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.tokens.ReadToken()
	return err
}

// entry reads counts: the totals or, with path in want, a row, whose path goes to
// d.paths.
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

func (d *pageDecoder) truth() (bool, error) {
	token, err := d.tokens.ReadToken()
	if err != nil {
		return false, err
	}
	if token.Kind() != jsontext.KindTrue && token.Kind() != jsontext.KindFalse {
		return false, d.broken("want true or false")
	}
	return token.Kind() == jsontext.KindTrue, nil
}

func (d *pageDecoder) count() (int64, error) {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return 0, err
	}
	if raw.Kind() == jsontext.KindNumber {
		if n, ok := integer(raw); ok {
			return n, nil
		}
	}
	return 0, d.broken("want an integer from 0 to 2^63-1")
}

// path reads a path and keeps it as [analytics.EscapePath] says.
func (d *pageDecoder) path() error {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return err
	}
	if raw.Kind() != jsontext.KindString {
		return d.broken("want a string")
	}
	before := len(d.paths)
	tooLong := len(raw) > len(`""`)+len(`\u0000`)*maxPath // however it is written
	switch {
	case tooLong:
	case bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw):
		d.paths = append(d.paths, raw[1:len(raw)-1]...)
	default:
		d.paths = append(d.paths, analytics.EscapePath(units(raw))...)
	}
	switch {
	case tooLong || len(d.paths)-before > maxPath:
		return d.broken(fmt.Sprintf("a path over %d bytes", maxPath))
	case len(d.paths) > maxPaths:
		return d.broken(fmt.Sprintf("paths over %d MiB together", maxPaths>>20))
	}
	return nil
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

// broken returns an error that names the place of the token or value read last.
func (d *pageDecoder) broken(rule string) error {
	place := string(d.tokens.StackPointer())
	if place == "" {
		place = "the answer"
	}
	return fmt.Errorf("%w: %s, before byte %d: %s", errShape, place, d.tokens.InputOffset(), rule)
}

// units returns the contents of raw, a JSON string whose syntax has been checked:
// characters, lone surrogates and stray bytes.
func units(raw []byte) []rune {
	var out []rune
	for i := 1; i < len(raw)-1; {
		r, size := utf8.DecodeRune(raw[i:])
		switch {
		case raw[i] == '\\':
			r, size = escaped(raw[i:])
		case r == utf8.RuneError && size == 1:
			r = analytics.StrayByte + rune(raw[i])
		}
		out = append(out, r)
		i += size
	}
	return out
}

// escaped returns the unit that the escape at the beginning of raw stands for, and the length of the
// escape.
func escaped(raw []byte) (unit rune, size int) {
	const one = len(`\u0000`)
	if raw[1] != 'u' {
		text, _ := jsontext.AppendUnquote(nil, `"`+string(raw[:2])+`"`)
		return rune(text[0]), 2
	}
	hex := func(digits []byte) rune { // the token decoder has checked them
		n, _ := strconv.ParseUint(string(digits), 16, 16)
		return rune(n)
	}
	unit = hex(raw[2:one])
	if utf16.IsSurrogate(unit) && len(raw) >= 2*one && raw[one] == '\\' && raw[one+1] == 'u' {
		if pair := utf16.DecodeRune(unit, hex(raw[one+2:2*one])); pair != utf8.RuneError {
			return pair, 2 * one
		}
	}
	return unit, one
}

// integer returns the value of a JSON number; false unless it is an integer from 0 to 2^63-1,
// however it is written: 12, 12.0 and 1.2e1 are the same. Nothing is rounded. Only zero may have
// more than maxDigits digits or an exponent beyond them.
func integer(number []byte) (int64, bool) {
	const maxDigits = 1000
	if n, err := strconv.ParseUint(string(number), 10, 63); err == nil {
		return int64(n), true
	}
	mantissa, exponent, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	if len(bytes.Trim(mantissa, "-.0")) == 0 {
		return 0, true // -0 is 0 too
	}
	power, _ := strconv.ParseInt(string(exponent), 10, 32) // clamped; 0 if absent
	r, ok := new(big.Rat), len(mantissa) <= maxDigits && max(power, -power) <= maxDigits
	if ok {
		_, ok = r.SetString(string(number))
	}
	if !ok || !r.IsInt() || !r.Num().IsInt64() || r.Sign() < 0 {
		return 0, false
	}
	return r.Num().Int64(), true
}
