package redirects

import (
	"regexp"
	"slices"
	"strings"
)

// style is how a file is written: the text between its parts, and the columns of its targets.
type style struct {
	indent, gap, end, newline string
	quote                     string
	// column and ends are the columns of targets and of what follows them; 0: not aligned.
	column, ends int
	isNew        bool
}

var (
	fields = regexp.MustCompile(`[^ \t]+`)
	// A # inside of a word is a fragment.
	comment = regexp.MustCompile(`(^|[ \t])#.*$`)
)

// parseLines reads a _redirects file: source, conditions name=value, target, status, a rule a line.
func (f *File) parseLines() {
	f.last, f.insert = len(f.text), (*File).insertLines
	f.style = style{gap: " ", end: " 301", newline: newline(f.text)}
	var columns, ends []int
	for at := 0; at < len(f.text); {
		line, _, _ := strings.Cut(f.text[at:], "\n")
		start := at
		at += len(line) + 1
		plain := comment.ReplaceAllString(strings.TrimSuffix(line, "\r"), "")
		places := fields.FindAllStringIndex(plain, -1)
		to := slices.IndexFunc(places, func(p []int) bool {
			part := plain[p[0]:p[1]]
			return p[0] > places[0][0] && (part[0] == '/' || strings.Contains(part, "://"))
		})
		if to < 1 {
			continue
		}
		r := Rule{From: plain[places[0][0]:places[0][1]], To: plain[places[to][0]:places[to][1]], start: start,
			end: start + len(line), only: to > 1}
		f.style.indent = plain[:places[0][0]]
		f.style.gap = plain[places[0][1]:places[1][0]]
		f.style.end = ""
		for _, p := range places[to+1:] {
			status := strings.TrimSuffix(plain[p[0]:p[1]], "!")
			r.shows = r.shows || len(status) == 3 && status[0] != '3' && strings.Trim(status, "0123456789") == ""
			if r.only = r.only || strings.Contains(plain[p[0]:p[1]], "="); p[0] == places[to+1][0] {
				f.style.end = plain[places[to][1]:p[0]] + "301"
				ends = append(ends, p[0])
			}
		}
		columns = append(columns, places[to][0])
		if r.compile(true); !strings.HasPrefix(r.From, "/") {
			r.only = true // of another host
		}
		f.Rules = append(f.Rules, r)
	}
	f.style.column, f.style.ends = aligned(columns), aligned(ends)
}

// aligned returns the column in which the last two parts stand, 0 if they stand in two.
func aligned(columns []int) int {
	if n := len(columns); n > 1 && columns[n-1] == columns[n-2] {
		return columns[n-1]
	}
	return 0
}

// between returns the space between the end of a part and the next one, which stands in a column if there is one.
func between(length, column int, gap string) string {
	if column > 0 {
		return strings.Repeat(" ", max(1, column-length))
	}
	return gap
}

func (f *File) insertLines(at int, rules []Rule) string {
	// Comments above a rule are about it.
	for at < f.last {
		before := strings.TrimSuffix(f.text[:at], "\n")
		line := before[strings.LastIndexByte(before, '\n')+1:]
		if at == 0 || !strings.HasPrefix(strings.TrimSpace(line), "#") {
			break
		}
		at -= len(line) + 1
	}
	lines := make([]string, len(rules))
	for i, r := range rules {
		line := f.style.indent + r.From
		line += between(len(line), f.style.column, f.style.gap) + r.To
		if status := strings.TrimLeft(f.style.end, " \t"); status != "" {
			line += between(len(line), f.style.ends, strings.TrimSuffix(f.style.end, status)) + status
		}
		lines[i] = line
	}
	return f.joined(at, strings.Join(lines, f.style.newline))
}

// joined puts lines before the byte at. A file without a newline at its end has none afterwards either.
func (f *File) joined(at int, lines string) string {
	head, tail := f.text[:at], f.text[at:]
	switch {
	case head != "" && !strings.HasSuffix(head, "\n"):
		return head + f.style.newline + lines + tail
	default:
		return head + lines + f.style.newline + tail
	}
}
