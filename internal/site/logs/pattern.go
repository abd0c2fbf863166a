package logs

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// variables of nginx that name a part of a line. The value of all others is skipped.
var variables = map[string]field{
	"remote_addr": client, "realip_remote_addr": peer, "http_x_forwarded_for": forwarded,
	"proxy_add_x_forwarded_for": forwarded, "host": host, "http_host": host, "server_name": host,
	"request": request, "request_method": method, "request_uri": target, "uri": target, "status": status,
	"http_user_agent": userAgent, "http_accept": accept, "time_local": when, "time_iso8601": when,
	"msec": when, "sent_http_content_type": contentType, "http_referer": referrer, "body_bytes_sent": size,
	"bytes_sent": size,
}

// ourVariables are the variables of textForms beside nginx's.
var ourVariables = map[string]field{
	"origin": origin, "client_port": clientPort, "time": when, "number": number, "size": ourSize, "word": word, "tail": tail,
	"captured": captured,
}

// pattern is a compiled log_format. Text may follow what it describes, after a space.
type pattern struct {
	begin []byte // before the first value
	steps []step
	known Line // of a format that leaves parts out
}

// step is one value and the text after it.
type step struct {
	field  field
	until  []byte
	quoted bool // until begins with a quotation mark: in the value it is escaped
}

var variable = regexp.MustCompile(`\$(?:\w+|\{\w+\})`)

// compile compiles a log_format: text with variables, as nginx's documentation says, or others.
func compile(format string, others map[string]field) (*pattern, error) {
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
		f, ok := others[name]
		if !ok {
			f, ok = variables[name]
		}
		if header, isHeader := strings.CutPrefix(name, "http_"); !ok && isHeader {
			f = purposeHeaders[strings.ReplaceAll(header, "_", "-")]
		}
		p.steps = append(p.steps, step{f, []byte(until), strings.HasPrefix(until, `"`)})
		has[f] = true
	}
	switch {
	case !has[when]:
		return nil, fmt.Errorf("no time: want $time_local, $time_iso8601 or $msec")
	case !has[request] && !has[target] && !has[captured]:
		return nil, fmt.Errorf("no path: want $request or $request_uri")
	case !has[client] && !has[forwarded] && !has[origin] && !has[clientPort]:
		return nil, fmt.Errorf("no client: want $remote_addr or $http_x_forwarded_for")
	case !has[status]:
		return nil, fmt.Errorf("no status: want $status")
	}
	return p, nil
}

// parse reads a line. What it has to write anew it appends to buf.
func (p *pattern) parse(line []byte, into *Line, buf []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(line, p.begin)
	if !ok {
		return buf, errForm
	}
	*into = p.known
	for i := range p.steps {
		s := &p.steps[i]
		size := s.size(rest)
		if size < 0 {
			return buf, errForm
		}
		value := rest[:size]
		rest = rest[size+len(s.until):]
		var err error
		switch s.field {
		case none:
			continue
		case tail:
			buf, err = into.setTail(value, buf)
		case captured:
			buf, err = into.setCaptured(value, buf)
		default:
			if s.quoted {
				value, buf = unescaped(value, buf)
			}
			err = into.set(s.field, value)
		}
		if err != nil {
			return buf, err
		}
	}
	if len(rest) > 0 && rest[0] != ' ' {
		return buf, errForm
	}
	return buf, nil
}

// size returns the size of the value at the beginning of rest, -1 where the text after it is missing. The last value
// ends at a space if it can have none.
func (s *step) size(rest []byte) int {
	if len(s.until) == 0 {
		at := bytes.IndexByte(rest, ' ')
		switch s.field {
		case when:
			if len(rest) > 2 && rest[2] == '/' && at >= 0 { // before its zone
				if next := bytes.IndexByte(rest[at+1:], ' '); next >= 0 {
					return at + 1 + next
				}
				return len(rest)
			}
		case client, clientPort, peer, host, method, status, fetchMode, size, ourSize, number, word:
		default:
			return len(rest)
		}
		if at < 0 {
			return len(rest)
		}
		return at
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
