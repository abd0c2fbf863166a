package docsapi

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/docgauge/docgauge/internal/analytics"
)

var pathTooLong = fmt.Sprintf("a path over %d bytes", maxPath)

// appendPath appends the path that raw, a JSON string, stands for.
func appendPath(paths, raw []byte) []byte {
	before := len(paths)
	paths, err := jsontext.AppendUnquote(paths, raw)
	if err == nil && bytes.IndexByte(paths[before:], '\\') < 0 {
		return paths
	}
	return append(paths[:before], analytics.EscapePath(units(raw))...)
}

// units returns what raw, a JSON string whose syntax has been checked, holds:
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

// escaped returns the unit that the escape at the beginning of raw stands for,
// and how many bytes that takes.
func escaped(raw []byte) (unit rune, size int) {
	const one = len(`\u0000`)
	switch c := raw[1]; c {
	case 'u':
		unit = hex(raw[2:one])
		if utf16.IsSurrogate(unit) && len(raw) >= 2*one && raw[one] == '\\' && raw[one+1] == 'u' {
			if pair := utf16.DecodeRune(unit, hex(raw[one+2:2*one])); pair != utf8.RuneError {
				return pair, 2 * one
			}
		}
		return unit, one
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	default:
		return rune(c), 2
	}
}

// hex reads four digits, which the token decoder has checked.
func hex(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits), 16, 16)
	return rune(n)
}

// integer reads a JSON number; false unless its value is an integer from 0 to
// 2^63-1. Nothing is rounded, and the size of an exponent costs nothing.
func integer(number []byte) (int64, bool) {
	unsigned, negative := bytes.CutPrefix(number, []byte("-"))
	mantissa, power, _ := bytes.Cut(bytes.ToLower(unsigned), []byte("e"))
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	figures := bytes.TrimLeft(append(bytes.Clone(whole), fraction...), "0")
	if len(figures) == 0 {
		return 0, true // -0 is 0 too
	}
	significant := bytes.TrimRight(figures, "0")
	// An exponent out of range becomes the nearest end of the range, which is far
	// out of ours; an absent one becomes 0.
	exponent, _ := strconv.ParseInt(string(power), 10, 32)
	zeros := exponent - int64(len(fraction)) + int64(len(figures)-len(significant))
	if negative || zeros < 0 || int64(len(significant))+zeros > int64(len("9223372036854775807")) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(significant)+strings.Repeat("0", int(zeros)), 10, 64)
	return n, err == nil
}
