package analytics

import (
	"bytes"
	"fmt"
	pathpkg "path"
	"slices"
	"strings"
	"unicode/utf8"
)

// StrayByte is added by [EscapePath] and [UnescapePath] to a byte of a path that
// is not part of a UTF-8 character: the unit StrayByte + 0xff is the byte 0xff.
const StrayByte rune = utf8.MaxRune + 1

// EscapePath returns the text that stands for a path in every file, table and
// label: valid UTF-8, and for two different paths two different texts.
//
// units is the path as the service sent it: Unicode characters, surrogates that
// lack their other half (0xD800 to 0xDFFF, which JSON writes as "\ud800"), and
// bytes that are not UTF-8 (StrayByte + b). A path of characters alone is its own
// text, unless that reads like an escape. In all others
//
//	a lone surrogate becomes  \ud800 to \udfff
//	a stray byte becomes      \x80 to \xff
//	a backslash becomes       \\
//
// with hexadecimal digits in lower case. A text is an escaped one if and only if
// it has \ud800 to \udfff or \x80 to \xff anywhere in it, which is how
// [UnescapePath] gets the path back.
func EscapePath(units []rune) string {
	text := make([]byte, 0, len(units)+16)
	odd := false
	for _, u := range units {
		text = appendUnit(text, u)
		odd = odd || !utf8.ValidRune(u)
	}
	if !odd && !looksEscaped(text) {
		return string(text)
	}
	text = text[:0]
	for _, u := range units {
		if u == '\\' {
			text = append(text, '\\')
		}
		text = appendUnit(text, u)
	}
	return string(text)
}

// appendUnit appends a character unchanged and any other unit as its escape.
func appendUnit(text []byte, u rune) []byte {
	switch {
	case utf8.ValidRune(u):
		return utf8.AppendRune(text, u)
	case u >= StrayByte:
		return fmt.Appendf(text, `\x%02x`, byte(u-StrayByte))
	}
	return fmt.Appendf(text, `\u%04x`, u)
}

// UnescapePath returns the path that text stands for, in the units that
// [EscapePath] takes.
func UnescapePath(text string) []rune {
	if !looksEscaped([]byte(text)) {
		return []rune(text)
	}
	var units []rune
	for i := 0; i < len(text); {
		u, size := utf8.DecodeRuneInString(text[i:])
		if escaped, n := escape([]byte(text[i:min(i+longestEscape, len(text))])); n > 0 {
			u, size = escaped, n
		} else if u == '\\' && i+1 < len(text) && text[i+1] == '\\' {
			size = 2
		}
		units = append(units, u)
		i += size
	}
	return units
}

func looksEscaped(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return false
		}
		text = text[i:]
		if _, n := escape(text); n > 0 {
			return true
		}
		text = text[1:]
	}
}

const longestEscape = len(`\ud800`)

// escape returns the unit of the escape at the beginning of text, and the escape's length in
// bytes: 0 if text does not begin with an escape.
func escape(text []byte) (unit rune, size int) {
	var digits int
	switch {
	case bytes.HasPrefix(text, []byte(`\x`)):
		unit, digits = StrayByte, 2
	case bytes.HasPrefix(text, []byte(`\u`)):
		digits = 4
	default:
		return 0, 0
	}
	size = 2 + digits
	if len(text) < size {
		return 0, 0
	}
	var value rune
	for _, c := range text[2:size] {
		d := bytes.IndexByte([]byte("0123456789abcdef"), c)
		if d < 0 {
			return 0, 0
		}
		value = value<<4 | rune(d)
	}
	if digits == 2 && value < utf8.RuneSelf || digits == 4 && utf8.ValidRune(value) {
		return 0, 0
	}
	return unit + value, size
}

// pageEnds are the ends of paths that name another form of the same page, the longest first.
var pageEnds = [...]string{".html.md", ".html", ".mdx", ".md"}

// FoldPage returns the page that a path names, whichever form it asks for: without .html, .md, .mdx,
// .html.md or the index of a folder with one of these, and without slashes at the end.
func FoldPage(path string) string {
	for _, end := range pageEnds {
		if whole, ok := strings.CutSuffix(path, end); ok {
			path = whole
			if folder, isIndex := strings.CutSuffix(path, "/index"); isIndex {
				path = folder
			}
			break
		}
	}
	if path = strings.TrimRight(path, "/"); path == "" {
		return "/"
	}
	return path
}

// PageExtensions are the extensions of files that become pages.
var PageExtensions = []string{".mdx", ".md", ".markdown", ".mdoc", ".ipynb", ".rst", ".adoc", ".html", ".htm"}

// CutPageExtension returns a file without its extension, and whether it is a file that becomes a page.
func CutPageExtension(file string) (name string, isPage bool) {
	extension := pathpkg.Ext(file)
	return strings.TrimSuffix(file, extension), slices.Contains(PageExtensions, strings.ToLower(extension))
}

// PartOfPages reports whether a file below the folder of the documentation is included by pages, or is about the
// repository.
func PartOfPages(file string) bool {
	return slices.ContainsFunc(strings.Split(file, "/"), func(name string) bool {
		return name == "snippets" || name == "node_modules" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".")
	})
}
