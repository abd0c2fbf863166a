package redirects

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// token is a word, or one of ; { } of a configuration of nginx.
type token struct {
	text, raw  string
	start, end int
}

// tokens splits a configuration as nginx does: words end at a space, quoted ones at their quote.
func tokens(text string) (out []token) {
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			at++
		case c == '#':
			line, _, _ := strings.Cut(text[at:], "\n")
			at += len(line)
		case strings.IndexByte(";{}", c) >= 0:
			out = append(out, token{string(c), string(c), at, at + 1})
			at++
		default:
			start, word := at, ""
			quote := byte(0)
			if c == '"' || c == '\'' {
				quote = c
				at++
			}
			for at < len(text) && (quote != 0 && text[at] != quote ||
				quote == 0 && strings.IndexByte(" \t\r\n;{", text[at]) < 0 || quote == 0 && text[at] == '{' && text[at-1] == '$') {
				if text[at] == '\\' && at+1 < len(text) && (strings.IndexByte(`"'\`, text[at+1]) >= 0 || quote == 0) {
					if strings.IndexByte(`"'\`, text[at+1]) < 0 {
						word += `\`
					}
					at++
				}
				word += text[at : at+1]
				at++
			}
			if quote != 0 && at < len(text) {
				at++
			}
			out = append(out, token{word, text[start:at], start, at})
		}
	}
	return out
}

// mapTarget is the variable of the map in new files.
const mapTarget = "$docgauge_redirect"

// newMap begins a new file. Missed paths are listed as analytics.FoldPage has them, but nginx compares all of a path.
const newMap = `map $uri $docgauge_page { # of /old/, /old.html and /old.md it is /old
    ~^(?<docgauge_folded>/.*?)(?:/|(?:/index)?\.(?:html\.md|html|mdx?))$ $docgauge_folded;
    default $uri;
}
map $docgauge_page ` + mapTarget + " {\n"

// parseMap reads a map of nginx from paths to targets: a file with such a block, the only one or the one to mapTarget, or
// the inside of a block, which nginx includes.
func (f *File) parseMap() error {
	f.insert, f.last = (*File).insertEntries, len(f.text)
	f.style = style{gap: " ", newline: newline(f.text), isNew: strings.TrimSpace(f.text) == ""}
	all := tokens(f.text)
	blocks, maps, ours := 0, []int(nil), []int(nil) // where maps begin, and those to mapTarget
	for i, t := range all {
		if t.raw != "{" {
			continue
		}
		if blocks++; i >= 3 && all[i-3].raw == "map" {
			maps = append(maps, i)
			if all[i-1].raw == mapTarget {
				ours = append(ours, i)
			}
		}
	}
	switch {
	case blocks == 0:
		err := f.parseEntries(all)
		for _, r := range f.Rules {
			if r.matches == nil && !r.unread && !strings.HasPrefix(r.From, "/") { // a directive, such as root
				err = cmp.Or(err, fmt.Errorf("%.40q is no path: want the lines of a map", r.From))
			}
		}
		return err
	case len(ours) > 0:
		maps = ours
	}
	if len(maps) != 1 {
		return fmt.Errorf("it has %d maps: want a file with one map block, or one to %s, or with the lines of a map alone",
			len(maps), mapTarget)
	}
	begin := maps[0] + 1
	end := begin
	for end < len(all) && all[end].raw != "}" {
		end++
	}
	if end == len(all) {
		return errors.New("the map has no } at its end")
	}
	f.style.indent = "    "
	f.last = strings.LastIndexByte(f.text[:all[end].start], '\n') + 1
	if strings.TrimSpace(f.text[f.last:all[end].start]) != "" {
		f.last = all[end].start
	}
	return f.parseEntries(all[begin:end])
}

func (f *File) parseEntries(all []token) error {
	var columns []int
	for len(all) > 0 {
		n := 0
		for n < len(all) && all[n].raw != ";" {
			n++
		}
		if n == len(all) {
			return fmt.Errorf("%.40q has no ; at its end", all[0].raw)
		}
		entry := all[:n]
		all = all[n+1:]
		if len(entry) > 2 {
			return fmt.Errorf("%.40q: want a path and its target, as the lines of a map are", entry[0].raw)
		}
		if len(entry) != 2 || entry[0].raw == "default" || entry[0].raw == "include" {
			continue
		}
		from, to := entry[0], entry[1]
		line := strings.LastIndexByte(f.text[:from.start], '\n') + 1
		r := Rule{From: strings.TrimPrefix(from.text, `\`), To: to.text, start: from.start, end: to.end}
		if name := longNames.FindStringSubmatch(from.text); name != nil {
			r.From = strings.ReplaceAll(name[1], `\.`, ".")
		} else if pattern, isPattern := strings.CutPrefix(from.text, "~"); isPattern {
			flags := ""
			if rest, fold := strings.CutPrefix(pattern, "*"); fold {
				pattern, flags = rest, "(?i)"
			}
			var err error
			r.matches, err = regexp.Compile(flags + pattern)
			r.unread = err != nil
		}
		f.Rules = append(f.Rules, r)
		f.style.quote = ""
		if from.raw[0] == '"' || from.raw[0] == '\'' {
			f.style.quote = from.raw[:1]
		}
		f.style.gap = f.text[from.end:to.start]
		if indent := f.text[line:from.start]; strings.TrimSpace(indent) == "" {
			f.style.indent = indent
		}
		columns = append(columns, to.start-line)
	}
	f.style.column = aligned(columns)
	return nil
}

// maxName is the length in bytes of the longest path that nginx takes for a name of a map; for longer ones it does not
// start without another map_hash_bucket_size. These are patterns of themselves alone.
const maxName = 46

var longNames = regexp.MustCompile(`^~\*\^(/(?:[A-Za-z0-9_~/-]|\\\.)*)\$$`)

// nameOf returns a path as the map has it.
func nameOf(path string) string {
	if len(path) > maxName {
		return "~*^" + regexp.QuoteMeta(path) + "$"
	}
	return path
}

func (f *File) insertEntries(at int, rules []Rule) string {
	s := f.style
	var lines []string
	for _, r := range rules {
		source := s.indent + s.quote + nameOf(r.From) + s.quote
		to := s.quote + r.To + s.quote
		lines = append(lines, source+between(len(source), s.column, s.gap)+to+";")
	}
	if s.isNew {
		return f.text + newMap + "    " + strings.Join(lines, "\n    ") + "\n}\n"
	}
	return f.joined(at, strings.Join(lines, s.newline))
}
