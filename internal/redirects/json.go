package redirects

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// element is a redirect in a list of JSON.
type element struct {
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	Has         json.RawMessage `json:"has"`
	Missing     json.RawMessage `json:"missing"`
}

// list is where the redirects stand in a JSON file.
type list struct {
	// open is behind the [ of the list; without a list, behind the last member of the object, or behind its {.
	open int
	// missing: the object has no list; first: it has no member at all; compact: it has no lines.
	missing, first, compact bool
	// indent is the indentation of the line of the list, unit one level.
	indent, unit string
}

// scanner walks through JSON and knows where each value is.
type scanner struct {
	*json.Decoder
	text string
}

// next returns where the next token starts.
func (s scanner) next() int {
	at := int(s.InputOffset())
	for at < len(s.text) && strings.IndexByte(" \t\r\n,:", s.text[at]) >= 0 {
		at++
	}
	return at
}

const byteOrderMark = "\ufeff"

// parseJSON reads the redirects of docs.json or vercel.json, or a file that is their list alone.
func (f *File) parseJSON() error {
	text, mark := strings.CutPrefix(f.text, byteOrderMark)
	if strings.TrimSpace(text) == "" {
		f.text = f.text + "{}\n"
		return f.parseJSON()
	}
	if !json.Valid([]byte(text)) {
		var any json.RawMessage
		return fmt.Errorf("not JSON: %w", json.Unmarshal([]byte(text), &any))
	}
	shift := 0
	if mark {
		shift = len(byteOrderMark)
	}
	s := scanner{json.NewDecoder(strings.NewReader(text)), text}
	place, err := s.find()
	if err != nil {
		return err
	}
	place.open += shift
	f.last = place.open
	for !place.missing && s.More() {
		start := s.next()
		var e element
		if err := s.Decode(&e); err != nil || e.Source == "" {
			return errors.Join(errors.New("redirects: want a list of objects with source and destination"), err)
		}
		r := Rule{From: e.Source, To: e.Destination, start: start + shift, end: int(s.InputOffset()) + shift,
			only: e.Has != nil || e.Missing != nil}
		r.compile(f.format == "mintlify")
		f.Rules = append(f.Rules, r)
		f.last = r.end
	}
	f.insert = func(f *File, at int, rules []Rule) string { return f.insertElements(place, at, rules) }
	return nil
}

// find walks to the list of redirects.
func (s scanner) find() (l list, err error) {
	opening, err := s.Token()
	if err != nil {
		return l, err
	}
	l.open = int(s.InputOffset())
	l.unit = "  "
	if opening == json.Delim('[') {
		return l, nil
	}
	if opening != json.Delim('{') {
		return l, errors.New("want an object with redirects, or a list of them")
	}
	l.missing, l.first, l.indent = true, true, l.unit
	for s.More() {
		if l.first {
			space := s.text[l.open:s.next()]
			at := strings.LastIndexByte(space, '\n')
			l.first, l.compact, l.unit = false, at < 0, space[at+1:]
			l.indent = l.unit
		}
		name, err := s.Token()
		if err != nil {
			return l, err
		}
		var value json.RawMessage
		if name != "redirects" {
			if err := s.Decode(&value); err != nil {
				return l, err
			}
			l.open = int(s.InputOffset())
			continue
		}
		if s.again() {
			return l, errors.New("it has the name redirects twice")
		}
		token, err := s.Token()
		if err != nil {
			return l, err
		}
		if token != json.Delim('[') {
			return l, errors.New("redirects: want a list; name the file that holds it, if this one refers to it")
		}
		l.missing, l.open = false, int(s.InputOffset())
		return l, nil
	}
	return l, nil
}

// again reports whether the object has redirects more than once.
func (s scanner) again() bool {
	d := json.NewDecoder(strings.NewReader(s.text))
	if _, err := d.Token(); err != nil {
		return false
	}
	n := 0
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return false
		}
		if name == "redirects" {
			n++
		}
	}
	return n > 1
}

// shape is how an element is written: the space before its first name, after a colon, after a comma, and at its end.
type shape struct{ open, colon, comma, end string }

// shapeOf reads the shape of an element.
func shapeOf(text string) (out shape) {
	s := scanner{json.NewDecoder(strings.NewReader(text)), text}
	_, _ = s.Token()
	from := int(s.InputOffset())
	for i := 0; s.More(); i++ {
		start := s.next()
		switch space := strings.TrimPrefix(text[from:start], ","); i {
		case 0:
			out.open = space
		case 1:
			out.comma = space
		}
		_, _ = s.Token()
		from = int(s.InputOffset())
		out.colon = strings.TrimPrefix(text[from:s.next()], ":")
		var value json.RawMessage
		_ = s.Decode(&value)
		from = int(s.InputOffset())
	}
	out.end = text[from : len(text)-1]
	return out
}

func (f *File) insertElements(l list, at int, rules []Rule) string {
	newline := newline(f.text)
	closing := newline + l.indent
	outer, colon := closing+l.unit, " "
	written := shape{outer + l.unit, " ", outer + l.unit, outer}
	if l.compact {
		closing, outer, colon, written = "", "", "", shape{}
	}
	if n := len(f.Rules); n > 0 {
		last := f.Rules[n-1]
		written = shapeOf(f.text[last.start:last.end])
		before := f.text[l.open:last.start]
		outer = before[len(strings.TrimRight(before, " \t\r\n")):]
	}
	var elements []string
	for _, r := range rules {
		e := "{" + written.open + `"source":` + written.colon + `"` + r.From + `",` + written.comma + `"destination":` +
			written.colon + `"` + r.To + `"`
		if f.format == "vercel" {
			e += "," + written.comma + `"permanent":` + written.colon + "true"
		}
		elements = append(elements, e+written.end+"}")
	}
	text := strings.Join(elements, ","+outer)
	head, tail := f.text[:at], f.text[at:]
	switch {
	case l.missing:
		comma := ","
		if l.first {
			comma, tail = "", newline+strings.TrimLeft(tail, " \t\r\n")
		}
		return head + comma + closing + `"redirects":` + colon + "[" + outer + text + closing + "]" + tail
	case len(f.Rules) == 0:
		return head + outer + text + closing + strings.TrimLeft(tail, " \t\r\n")
	case at < f.last:
		return head + text + "," + outer + tail
	}
	return head + "," + outer + text + tail
}
