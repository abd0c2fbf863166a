package docsapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
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
	// maxName is the longest agent or class, in bytes, after escaping.
	maxName = 200
)

// member is a member that an object must have, and where its value goes: a *string for a name, a *bool, an
// *int64, or a func() error that reads it.
type member struct {
	name  string
	value any
	least int64 // of an *int64
}

// optional reads a member that may be absent.
type optional func() error

// pageDecoder reads one page token by token, because decoding into structs needs 1.6 times the CPU
// time. The token decoder checks the syntax and that no name comes twice; this type checks which
// members are there, and their kinds. Strings may contain what is not Unicode (see path).
type pageDecoder struct {
	tokens *jsontext.Decoder
	// paths holds the paths of all rows one after another: they become one string.
	paths strings.Builder
	// names are those that have come: few agents are in many rows.
	names map[string]string
}

// decode reads the answer for at most maxRows rows of a report (specification, sections 4.3, 2.2 and 2.3).
// Only some reports have a page with an empty path. Unknown members are skipped. Errors wrap errCut where
// the body ends too early, else errShape, name the member and the byte, and are malformed where the body is
// still a page. body is not kept. A dataFrom or humans of another kind counts as absent: other services may mean
// something else by it.
func decode(body []byte, maxRows int, shape *analytics.Shape) (page analytics.Page, err error) {
	d := &pageDecoder{
		tokens: jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true)),
		names:  map[string]string{},
	}
	d.paths.Grow(len(body) / 2)
	// Each row is read into this one, whose every column its object must have.
	var row analytics.Record
	fields := shape.Fields(&row)
	var columns []member
	for i, field := range fields.All() {
		columns = append(columns, member{shape.Columns[i].Name, field, shape.Columns[i].Least})
	}
	columns[0].value = d.path
	page.Rows = make([]analytics.Record, 0, maxRows)
	ends := make([]int, 0, maxRows) // of the paths
	err = d.object([]member{
		{name: "totals", value: func() (err error) {
			if shape.Site {
				page.Site, err = readSite(d, shape, &row, columns)
				return err
			}
			err = d.object(columns[1:])
			page.Totals = row.Counts.Totals()
			return err
		}},
		{name: shape.Name, value: func() error {
			return d.array(func() error {
				before := d.paths.Len()
				if err := d.object(columns); err != nil {
					return err
				}
				switch {
				case !shape.EmptyPath && d.paths.Len() == before:
					return d.broken("an empty path")
				case len(page.Rows) == maxRows:
					return d.broken(fmt.Sprintf("more rows than the %d asked for", maxRows))
				}
				page.Rows, ends = append(page.Rows, row), append(ends, d.paths.Len())
				return nil
			})
		}},
		{name: "hasMore", value: &page.HasMore},
		{name: "dataFrom", value: optional(func() (err error) {
			page.DataFrom, err = d.dataFrom()
			return err
		})},
		{name: "humans", value: optional(func() (err error) {
			page.Humans, err = d.humans()
			return err
		})},
	})
	if err == nil {
		if _, err = d.tokens.ReadToken(); err == nil {
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
		return analytics.Page{}, err
	}
	paths, from := d.paths.String(), 0
	for i, end := range ends {
		page.Rows[i].Texts[0], from = paths[from:end], end
	}
	return page, nil
}

// readSite reads totals that are rows: objects with the columns of a row but for the path and the truths,
// which are true. row is where the columns go.
func readSite(
	d *pageDecoder, shape *analytics.Shape, row *analytics.Record, columns []member,
) (site []analytics.Record, err error) {
	var counted []member
	for _, m := range columns[1:] {
		if truth, ok := m.value.(*bool); ok {
			*truth = true
		} else {
			counted = append(counted, m)
		}
	}
	err = d.array(func() error {
		if err := d.object(counted); err != nil {
			return err
		}
		if slices.ContainsFunc(site, func(o analytics.Record) bool { return shape.Compare(*row, o) == 0 }) {
			return d.broken(shape.Describe(*row) + " comes twice")
		}
		site = append(site, *row)
		return nil
	})
	return site, err
}

// isPage reports whether body is a page of a report, however bad its values:
// an object with at least two of a page's three members, or, where the object
// breaks off, with one before that.
func isPage(body []byte) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return false
	}
	seen := map[string]bool{}
	for d.PeekKind() != jsontext.KindEndObject {
		quoted, err := d.ReadValue()
		if err == nil {
			name := string(unquoted(quoted))
			if _, unknown := analytics.ParseReport(name); unknown == nil || name == "totals" || name == "hasMore" {
				seen[name] = true
			}
			err = d.SkipValue()
		}
		if err != nil {
			return len(seen) > 0
		}
	}
	return len(seen) >= 2
}

// unquoted returns the name that a JSON string stands for, which a decoder has checked.
func unquoted(quoted []byte) []byte {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted)
	}
	return name
}

// object reads an object that must have all of the members. Others are skipped.
func (d *pageDecoder) object(members []member) error {
	if err := d.begin(jsontext.KindBeginObject, "an object"); err != nil {
		return err
	}
	seen := 0 // one bit for each of the members
	for d.tokens.PeekKind() != jsontext.KindEndObject {
		quoted, err := d.tokens.ReadValue()
		if err != nil {
			return err
		}
		name := unquoted(quoted)
		i := slices.IndexFunc(members, func(m member) bool { return m.name == string(name) })
		if i < 0 {
			err = d.tokens.SkipValue()
		} else {
			seen |= 1 << i
			err = d.value(members[i])
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return err
	}
	var missing []string
	for i, m := range members {
		if _, may := m.value.(optional); !may && seen&(1<<i) == 0 {
			missing = append(missing, m.name)
		}
	}
	if missing != nil {
		return d.broken("missing: " + strings.Join(missing, ", "))
	}
	return nil
}

// value reads the value of a member.
func (d *pageDecoder) value(m member) (err error) {
	switch to := m.value.(type) {
	case *int64:
		*to, err = d.count(m.least)
	case *bool:
		*to, err = d.truth()
	case *string:
		*to, err = d.name()
		if err == nil && m.name == "audience" && *to != "human" && *to != "ai" && *to != "neither" {
			err = d.broken("want human, ai or neither")
		}
	case func() error:
		err = to()
	case optional:
		err = to()
	}
	return err
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

func (d *pageDecoder) count(least int64) (int64, error) {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return 0, err
	}
	if raw.Kind() == jsontext.KindNumber {
		if n, ok := integer(raw, least); ok {
			return n, nil
		}
	}
	return 0, d.broken(fmt.Sprintf("want an integer from %d to 2^63-1", least))
}

// dataFrom reads the first day with data: NoData for null, nil for what is no date.
func (d *pageDecoder) dataFrom() (*analytics.Date, error) {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return nil, err
	}
	day := analytics.NoData
	if raw.Kind() == jsontext.KindNull {
		return &day, nil
	}
	if raw.Kind() != jsontext.KindString || day.UnmarshalText(unquoted(raw)) != nil {
		return nil, nil //nolint:nilerr // nothing needs the day
	}
	return &day, nil
}

// humans reads the mode of counting people: the empty one for what is no mode.
func (d *pageDecoder) humans() (mode analytics.Humans, err error) {
	raw, err := d.tokens.ReadValue()
	if err == nil && raw.Kind() == jsontext.KindString {
		_ = mode.UnmarshalText(unquoted(raw)) // nothing needs it
	}
	return mode, err
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
	before := d.paths.Len()
	tooLong := len(raw) > len(`""`)+len(`\u0000`)*maxPath // however it is written
	switch {
	case tooLong:
	case bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw):
		d.paths.Write(raw[1 : len(raw)-1])
	default:
		d.paths.WriteString(analytics.EscapePath(units(raw)))
	}
	switch {
	case tooLong || d.paths.Len()-before > maxPath:
		return d.broken(fmt.Sprintf("a path over %d bytes", maxPath))
	case d.paths.Len() > maxPaths:
		return d.broken(fmt.Sprintf("paths over %d MiB together", maxPaths>>20))
	}
	return nil
}

// name reads a short text that is not empty and has no NUL, which PostgreSQL's text cannot hold.
func (d *pageDecoder) name() (string, error) {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return "", err
	}
	if raw.Kind() != jsontext.KindString {
		return "", d.broken("want a string")
	}
	if known, ok := d.names[string(raw)]; ok {
		return known, nil
	}
	if len(raw) > len(`""`)+len(`\u0000`)*maxName {
		return "", d.broken(fmt.Sprintf("a name over %d bytes", maxName))
	}
	key, name := string(raw), analytics.EscapePath(units(raw))
	if name == "" || len(name) > maxName {
		return "", d.broken(fmt.Sprintf("want 1 to %d bytes", maxName))
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", d.broken("want no NUL")
	}
	d.names[key] = name
	return name, nil
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

// integer returns the value of a JSON number; false unless it is an integer from least to 2^63-1,
// however it is written: 12, 12.0 and 1.2e1 are the same. Nothing is rounded. Only zero may have
// more than maxDigits digits or an exponent beyond them.
func integer(number []byte, least int64) (int64, bool) {
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
	if !ok || !r.IsInt() || !r.Num().IsInt64() || r.Num().Int64() < least {
		return 0, false
	}
	return r.Num().Int64(), true
}
