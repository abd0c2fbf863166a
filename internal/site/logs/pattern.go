package logs

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// The formats that servers write unless told otherwise, as nginx's log_format says them.
const (
	commonFormat   = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`
	combinedFormat = commonFormat + ` "$http_referer" "$http_user_agent"`
	mainFormat     = combinedFormat + ` "$http_x_forwarded_for"`
)

// variables of nginx that name a part of a line. The value of all others is skipped.
var variables = map[string]field{
	"remote_addr": client, "http_x_forwarded_for": forwarded, "host": host, "http_host": host,
	"request": request, "request_method": method, "request_uri": target, "uri": target, "status": status,
	"http_user_agent": userAgent, "http_accept": accept, "time_local": timeLocal, "time_iso8601": timeISO,
	"msec": timeUnix, "sent_http_content_type": contentType,
}

// pattern is a compiled log_format.
type pattern struct {
	begin []byte // before the first value
	steps []step
	// open: text may follow, after a space.
	open    bool
	scratch []byte // unescaped values of the line
}

// step is one value and the text after it.
type step struct {
	field  field
	until  []byte
	quoted bool // until begins with a quotation mark: in the value it is escaped
}

var variable = regexp.MustCompile(`\$(?:\w+|\{\w+\})`)

// compile compiles a log_format: text with variables, as nginx's documentation says.
func compile(format string) (*pattern, error) {
	found := variable.FindAllStringIndex(format, -1)
	if len(found) == 0 {
		return nil, fmt.Errorf("%.60q: want nginx's log_format with variables, such as %s", format, combinedFormat)
	}
	p, has := &pattern{begin: []byte(format[:found[0][0]])}, map[field]bool{}
	for i, at := range found {
		next := len(format)
		if i+1 < len(found) {
			next = found[i+1][0]
		}
		name, until := strings.Trim(format[at[0]:at[1]], "${}"), format[at[1]:next]
		if until == "" && i+1 < len(found) {
			return nil, fmt.Errorf("$%s: a value follows at once; want text between two values", name)
		}
		p.steps = append(p.steps, step{variables[name], []byte(until), strings.HasPrefix(until, `"`)})
		has[variables[name]] = true
	}
	switch {
	case !has[timeLocal] && !has[timeISO] && !has[timeUnix]:
		return nil, fmt.Errorf("no time: want $time_local, $time_iso8601 or $msec")
	case !has[request] && !has[target]:
		return nil, fmt.Errorf("no path: want $request or $request_uri")
	case !has[client] && !has[forwarded]:
		return nil, fmt.Errorf("no client: want $remote_addr or $http_x_forwarded_for")
	case !has[status]:
		return nil, fmt.Errorf("no status: want $status")
	}
	return p, nil
}

func (p *pattern) clone() parser {
	own := *p
	own.scratch = nil
	return &own
}

func (p *pattern) parse(line []byte, into *Line) error {
	*into = Line{}
	rest, ok := bytes.CutPrefix(line, p.begin)
	if !ok {
		return errForm
	}
	p.scratch = p.scratch[:0]
	for i := range p.steps {
		s := &p.steps[i]
		size := s.size(rest)
		if size < 0 {
			return errForm
		}
		value := rest[:size]
		rest = rest[size+len(s.until):]
		if s.field == none {
			continue
		}
		if s.quoted && bytes.IndexByte(value, '\\') >= 0 {
			before := len(p.scratch)
			p.scratch = unescape(p.scratch, value)
			value = p.scratch[before:]
		}
		if err := into.set(s.field, value); err != nil {
			return err
		}
	}
	if len(rest) > 0 && (!p.open || rest[0] != ' ') {
		return errForm
	}
	return nil
}

// size returns the size of the value at the beginning of rest, -1 where the text after it is missing.
func (s *step) size(rest []byte) int {
	if len(s.until) == 0 {
		return len(rest)
	}
	for at := 0; ; at++ {
		next := bytes.IndexByte(rest[at:], s.until[0])
		if next < 0 {
			return -1
		}
		at += next
		isEnd := len(s.until) == 1 || bytes.HasPrefix(rest[at:], s.until)
		switch {
		case !s.quoted && isEnd:
			return at
		case !s.quoted || isEscaped(rest[:at]):
		case !isEnd:
			return -1
		default:
			return at
		}
	}
}

// isEscaped reports whether before ends with an odd number of backslashes.
func isEscaped(before []byte) bool {
	n := len(before)
	for n > 0 && before[n-1] == '\\' {
		n--
	}
	return (len(before)-n)%2 == 1
}
