package logs

import (
	"bytes"
	"strings"
)

// The formats that servers write unless told otherwise, as nginx's log_format says them.
const (
	combinedFormat = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent ` +
		`"$http_referer" "$http_user_agent"`
)

// textForms are the forms of lines that are no JSON, in the order in which they are tried. No line follows two of them.
// What they say of a line is in the documentation of each server; a value without a name is only skipped.
var textForms = []struct {
	name string
	*pattern
}{
	// common and combined of Apache and nginx, what is before them (a host, X-Forwarded-For), and after them.
	{"combined", mustCompile(`$origin - $remote_user [$time] "$request" $status $tail`)},
	// The default of Envoy, and Istio's.
	{"envoy", mustCompile(`[$time] "$request" $status $word $number $size $number $word ` +
		`"$http_x_forwarded_for" "$http_user_agent" "$any" "$host" "$any"`)},
	{"envoy", mustCompile(`[$time] "$request" $status $word $word $word "$any" $number $size $number $word ` +
		`"$http_x_forwarded_for" "$http_user_agent" "$any" "$host" "$any" $word $word $word $client_port $word`)},
	// option httplog; its braces have the headers that are captured.
	{"haproxy", mustCompile(`$client_port [$time] $word $word $word $status $captured`)},
	// Application and Classic Load Balancers.
	{"alb", mustCompile(`$word $time $word $client_port $word $number $number $number $status $word $number $size ` +
		`"$request" "$http_user_agent" $word $word $word "$any" "$host"`)},
	{"elb", mustCompile(`$time $word $client_port $word $number $number $number $status $word $number $size ` +
		`"$request" "$http_user_agent" $word $word`)},
	// Server access logs; a site's bucket has the name of its host.
	{"s3", mustCompile(`$word $host [$time] $remote_addr $word $word $word $word "$request" $status $word $size ` +
		`$number $number $number "$http_referer" "$http_user_agent" $word`)},
	{"bunny", mustCompile(`$word|$status|$time|$size|$number|$remote_addr|$http_referer|$request_uri|$word|$http_user_agent|` +
		`$word|$word`)},
}

// mustCompile compiles a form of ours.
func mustCompile(format string) *pattern {
	p, err := compile(format, ourVariables)
	if err != nil {
		panic(err) // a constant
	}
	if strings.Contains(format, "$request_uri") { // and no method
		p.known = Line{Method: []byte("GET")}
	}
	return p
}

// setTail reads what is after the status: the size of the answer, and the referrer and user agent if there are any. A
// line that has the beginning of these two has both.
func (l *Line) setTail(v, buf []byte) ([]byte, error) {
	for isFirst := true; len(v) > 0 && v[0] != '"'; isFirst = false { // the size, and times beside it
		at := bytes.IndexByte(v, ' ')
		if isFirst {
			first, _, _ := bytes.Cut(v, []byte(" "))
			l.setSize(first)
		}
		if at < 0 {
			return buf, l.set(number, v)
		}
		if !isNumber(v[:at]) {
			return buf, nil // what the server's configuration adds
		}
		v = v[at+1:]
	}
	from, v, ok := cutQuoted(v)
	agent, v, ok2 := cutQuoted(v)
	if !ok || !ok2 {
		return buf, errForm
	}
	from, buf = unescaped(from, buf)
	agent, buf = unescaped(agent, buf)
	l.Referrer, l.UserAgent = dashed(from), dashed(agent)
	// The next text in quotes may be X-Forwarded-For, after numbers: no client has made these. What is after another
	// text may have been made by the client.
	for len(v) > 0 {
		value, rest, isQuoted := cutQuoted(v)
		if !isQuoted {
			value, rest, _ = bytes.Cut(v, []byte(" "))
		}
		if isQuoted && endsWithAddress(value) {
			l.Forwarded = value
			break
		}
		if !isNumber(value) || isQuoted && string(value) == "-" {
			break
		}
		v = rest
	}
	return buf, nil
}

// endsWithAddress reports whether v may be what X-Forwarded-For has: its last part is what a proxy has added.
func endsWithAddress(v []byte) bool {
	v = bytes.TrimSpace(v[bytes.LastIndexByte(v, ',')+1:])
	v, _, _ = bytes.Cut(v, []byte("%"))
	dots, colons := 0, 0
	for _, c := range v {
		switch {
		case c == '.':
			dots++
		case c == ':':
			colons++
		case c >= '0' && c <= '9', c|0x20 >= 'a' && c|0x20 <= 'f', c == '[', c == ']':
		default:
			return string(v) == "unknown"
		}
	}
	return dots == 3 || colons > 1
}

// cutQuoted cuts the text in quotes at the beginning of v, and the space after it.
func cutQuoted(v []byte) (value, rest []byte, ok bool) {
	if len(v) == 0 || v[0] != '"' {
		return nil, v, false
	}
	for at := 1; ; at++ {
		next := bytes.IndexByte(v[at:], '"')
		if next < 0 {
			return nil, v, false
		}
		if at += next; isEscaped(v[1:at]) {
			continue
		}
		value, rest = v[1:at], v[at+1:]
		if len(rest) == 0 {
			return value, nil, true
		}
		return value, rest[1:], rest[0] == ' '
	}
}

// unescaped returns a value without its escapes, for which it appends to buf.
func unescaped(value, buf []byte) (without, grown []byte) {
	if bytes.IndexByte(value, '\\') < 0 {
		return value, buf
	}
	before := len(buf)
	buf = unescape(buf, value)
	return buf[before:], buf
}

// setCaptured reads what is after the status in HAProxy's format: words, the captured headers of the request and of the
// answer in braces, and the request. Which headers they are, only the configuration says: host and user agent are told
// by their form.
func (l *Line) setCaptured(v []byte, buf []byte) ([]byte, error) {
	for i := range 6 { // bytes, two cookies, state, connections, queues
		at := bytes.IndexByte(v, ' ')
		if at < 0 {
			return buf, errForm
		}
		if i == 0 {
			l.setBytes(v[:at])
		}
		v = v[at+1:]
	}
	for isAnswer := false; len(v) > 0 && v[0] == '{'; isAnswer = true {
		end := bytes.IndexByte(v, '}')
		if end < 0 || !bytes.HasPrefix(v[end:], []byte("} ")) {
			return buf, errForm
		}
		if !isAnswer {
			buf = l.setHeaders(v[1:end], buf)
		}
		v = v[end+2:]
	}
	if len(v) < 2 || v[0] != '"' {
		return buf, errForm
	}
	before := len(buf)
	buf = unescapeHash(buf, bytes.TrimSuffix(v[1:], []byte(`"`)))
	return buf, l.set(request, buf[before:])
}

// fetchModes are the values of Sec-Fetch-Mode.
var fetchModes = map[string]bool{"navigate": true, "cors": true, "no-cors": true, "same-origin": true, "websocket": true}

func (l *Line) setHeaders(v, buf []byte) []byte {
	for value := range bytes.SplitSeq(v, []byte("|")) {
		before := len(buf)
		buf = unescapeHash(buf, value)
		value = buf[before:]
		name, isHost := hostOf(value)
		switch {
		case bytes.HasPrefix(value, []byte("http://")), bytes.HasPrefix(value, []byte("https://")):
			l.Referrer = value
		case fetchModes[string(value)]:
			l.FetchMode = value
		case endsWithAddress(value): // X-Forwarded-For: a header of another name could pretend to be it
		case bytes.HasPrefix(value, []byte("*/*")), bytes.HasPrefix(value, []byte("text/")),
			bytes.HasPrefix(value, []byte("application/")):
			l.Accept = value
		case isHost && len(l.Host) == 0:
			l.Host = name
		case len(value) > 0 && len(l.UserAgent) == 0:
			l.UserAgent = dashed(value)
		}
	}
	return buf
}

// unescapeHash appends v to buf without HAProxy's escapes, #22 for a quotation mark.
func unescapeHash(buf, v []byte) []byte {
	for i := 0; i < len(v); i++ {
		if n, ok := hexOf(v, i+1, 2); ok && v[i] == '#' {
			buf, i = append(buf, byte(n)), i+2
		} else {
			buf = append(buf, v[i])
		}
	}
	return buf
}
