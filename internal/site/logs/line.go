// Package logs reads the access logs of web servers: lines of several formats, plain or compressed, from files that
// grow and rotate, buckets and standard input.
//
// A line is an attack until it is read: whoever visits a site writes a part of its log. So nothing
// of a line is trusted or printed here, every line has a bound, and what does not follow the format
// is an error that says which part, never a panic.
package logs

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"
)

// Line has the parts of a line, unescaped. Its slices are valid until the parser
// reads the next line. Missing parts are empty.
type Line struct {
	Time      int64  // Unix seconds
	Client    []byte // address, as the server has established it; or several, as X-Forwarded-For has them
	Peer      []byte // address of the connection, where it may not be the client's
	Forwarded []byte // X-Forwarded-For: all its lines in order, comma-separated
	Host      []byte
	Method    []byte
	Target    []byte // of the request: path and query
	Status    int
	UserAgent []byte
	Accept    []byte // the request's header
	Type      []byte // Content-Type of the response
	Referrer  []byte // the request's header Referer
	FetchMode []byte // the request's header Sec-Fetch-Mode
	Bytes     int64  // of the answer, with its headers if the line says so; meaningless unless HasBytes
	HasBytes  bool
	Prefetch  bool // a header of the request says that it is made in advance
	Script    bool // a header of the request says that a script of Next.js makes it

	// RequestID is the id of the request, where several lines may be of one: Vercel writes one a message.
	RequestID []byte
	// ID is the id that the host has given the request; it tells a line that is sent again from another one.
	ID []byte

	// An event names what other lines are asked for.
	Event   []byte // of the platform: docs.content.view or docs.content.md.view
	Reader  []byte // of the sandbox
	Kind    []byte // of the sandbox: human or ai
	Project []byte
	// Shown and Markdown are of the sandbox: the reader shows that it is a browser, the answer is Markdown.
	Shown, Markdown bool

	isLocal bool // the time says no zone
}

// Errors of lines, by the part that does not follow the format.
var (
	errForm    = errors.New("does not follow the format")
	errTime    = errors.New("time: does not exist")
	errStatus  = errors.New("status: want three digits")
	errJSON    = errors.New("is not one JSON object")
	errColumns = errors.New("columns: want as many as the #Fields line names")
	errRequest = errors.New("is no request: want a time, a client and a path")
)

// field is a part of a line.
type field uint8

const (
	none field = iota
	client
	clientPort // address:port
	peer
	forwarded
	host
	method
	target
	status
	userAgent
	accept
	contentType
	purpose  // a header with prefetch in its value
	prefetch // a header that only requests in advance have
	script   // a header that only a script's requests have
	referrer
	fetchMode
	size    // of the answer, in bytes
	query   // of the target
	request // method, target and protocol
	when    // a time of any form
	date
	clock
	event
	visitor
	kind
	inner    // a line in the line
	source   // whether the request is a client's, or another server's of the CDN
	stream   // of a container
	deployed // a deployment of Vercel, which every line of its drains names
	requestID
	number   // digits, dots and dashes
	ourSize  // of the answer, a number or a dash for 0
	word     // without a space
	origin   // what is before the identity in NCSA's formats: the client, its proxies, a host
	tail     // what is after the status in NCSA's formats
	captured // what is after the status in HAProxy's format
)

// fieldNames are the names of fields in json:name=key,… and ourFieldNames those in jsonForms beside them.
var fieldNames = map[string]field{
	"time": when, "client": client, "forwarded": forwarded, "host": host, "method": method, "path": target,
	"request": request, "status": status, "agent": userAgent, "accept": accept, "type": contentType,
	"referrer": referrer, "mode": fetchMode, "bytes": size,
}

var ourFieldNames = map[string]field{
	"peer": peer, "event": event, "reader": visitor, "kind": kind, "line": inner, "source": source, "stream": stream, "deployed": deployed,
	"id": requestID,
}

// purposeHeaders are headers of requests that say what they are for: the browser's, and Next.js's.
var purposeHeaders = map[string]field{
	"sec-fetch-mode": fetchMode,
	"sec-purpose":    purpose, "purpose": purpose, "next-router-prefetch": prefetch,
	"next-router-segment-prefetch": prefetch, "x-middleware-prefetch": prefetch, "rsc": script, "x-nextjs-data": script,
}

// set sets a part of a line.
func (l *Line) set(f field, value []byte) error {
	switch f {
	case client:
		if bytes.IndexByte(value, ' ') >= 0 && bytes.IndexByte(value, ',') < 0 {
			return errForm
		}
		l.Client = dashed(value)
	case clientPort:
		at := bytes.LastIndexByte(value, ':')
		if _, ok := digits(value[at+1:]); !ok || at <= 0 || !isAddressOrName(value[:at]) {
			return errForm
		}
		l.Client = value[:at]
	case peer:
		l.Peer = dashed(value)
	case forwarded:
		l.Forwarded = dashed(value)
	case host:
		l.Host = dashed(value)
	case method:
		l.Method = value
	case target:
		l.Target = value
	case status:
		n, ok := digits(value)
		if ok && len(value) == 3 {
			l.Status = n
			return nil
		}
		switch string(value) {
		case "-", "-1", "0": // none was sent
			return nil
		}
		return errStatus
	case userAgent:
		l.UserAgent = dashed(value)
	case accept:
		l.Accept = dashed(value)
	case contentType:
		l.Type = dashed(value)
	case referrer:
		l.Referrer = dashed(value)
	case fetchMode:
		l.FetchMode = dashed(value)
	case size:
		l.setBytes(value)
	case purpose:
		l.Prefetch = l.Prefetch || bytes.Contains(value, []byte("prefetch"))
	case prefetch:
		l.Prefetch = l.Prefetch || len(dashed(value)) > 0
	case script:
		l.Script = l.Script || len(dashed(value)) > 0
	case request:
		// A target can have spaces, if the client is broken; HTTP/0.9 has no protocol.
		var ok bool
		if l.Method, value, ok = bytes.Cut(value, []byte(" ")); !ok {
			return nil
		}
		at := bytes.LastIndexByte(value, ' ')
		if at >= 0 && !bytes.HasPrefix(value[at:], protocol) {
			at = bytes.LastIndex(value, protocol)
		}
		if at >= 0 {
			value = value[:at]
		}
		l.Target = value
	case when:
		t, isLocal, ok := readTime(value)
		if !ok {
			return errTime
		}
		l.Time, l.isLocal = t, isLocal
	case event:
		l.Event = value
	case visitor:
		l.Reader = value
	case kind:
		l.Kind = value
	case number, ourSize:
		if !isNumber(value) {
			return errForm
		}
		if f == ourSize {
			l.setSize(value)
		}
	case word:
		if bytes.IndexByte(value, ' ') >= 0 {
			return errForm
		}
	case origin:
		return l.setOrigin(value)
	}
	return nil
}

// maxBytes bounds what an answer can have: sums of many do not overflow.
const maxBytes = 1 << 40

// setBytes reads the size of an answer: of several the greatest counts, since one with the headers is greater.
func (l *Line) setBytes(v []byte) {
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' || n > maxBytes {
			return
		}
		n = n*10 + int64(c-'0')
	}
	if len(v) > 0 {
		l.Bytes, l.HasBytes = max(l.Bytes, min(n, maxBytes)), true
	}
}

// setSize reads the size of an answer in a format that has a dash for 0.
func (l *Line) setSize(v []byte) {
	if l.setBytes(v); len(v) == 1 && v[0] == '-' {
		l.HasBytes = true
	}
}

func isNumber(v []byte) bool {
	for _, c := range v {
		if (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// setOrigin reads an address, a list of them as X-Forwarded-For has it, or one of the two after a host.
func (l *Line) setOrigin(v []byte) error {
	at := bytes.IndexByte(v, ' ')
	switch n := len(v); {
	case n > 2 && v[0] == '"' && v[n-1] == '"':
		v = v[1 : n-1]
	case at < 0 && isAddressOrName(v):
		l.Client = v
		return nil
	case at <= 0:
		return errForm
	case v[at-1] != ',':
		var ok bool
		if l.Host, ok = hostOf(v[:at]); !ok {
			return errForm
		}
		if v = v[at+1:]; isAddressOrName(v) {
			l.Client = v
			return nil
		}
	}
	for i, c := range v {
		if c == ' ' && (i == 0 || v[i-1] != ',') {
			return errForm
		}
	}
	l.Forwarded = dashed(v)
	return nil
}

// isAddressOrName reports whether v may be addresses without a space, or a name.
func isAddressOrName(v []byte) bool {
	for _, c := range v {
		switch {
		case c >= '0' && c <= ':', c == '.', c|0x20 >= 'a' && c|0x20 <= 'z', c == '-', c == '_', c == ',', c == '[', c == ']',
			c == '%', c >= 0x80:
		default:
			return false
		}
	}
	return len(v) > 0
}

// hostOf returns a host's name without its port.
func hostOf(value []byte) (host []byte, ok bool) {
	end := len(value)
	for i, c := range value {
		switch {
		case c >= '0' && c <= '9':
		case c == ':' && end == len(value):
			end = i
		case end < len(value) && value[0] != '[':
			return nil, false
		case c|0x20 >= 'a' && c|0x20 <= 'z', c == '.', c == '-', c == '_', c == '[', c == ']', c == ':', c >= 0x80:
		default:
			return nil, false
		}
	}
	if end == len(value) || value[0] == '[' {
		return dashed(value), end > 0
	}
	return value[:end], end > 0
}

// protocol follows the target of a request.
var protocol = []byte(" HTTP/")

// dashed returns nothing for the dash that servers log for it.
func dashed(value []byte) []byte {
	if len(value) == 1 && value[0] == '-' {
		return nil
	}
	return value
}

// readTime reads a time: 02/Jan/2006:15:04:05, 2006-01-02T15:04:05 or 2006/01/02 15:04:05 with whatever separates the
// two parts, a fraction and a zone, if there are any, or a number of seconds, milliseconds or more since 1970. They
// cannot be confused. isLocal: it has no zone.
func readTime(v []byte) (t int64, isLocal, ok bool) {
	if len(v) < len("2006-01-02T15:04:05") || v[2] != '/' && v[4] != '-' && v[4] != '/' {
		t, ok = readNumber(v)
		return t, false, ok
	}
	var day, month, year int
	var ok1, ok2, ok3 bool
	clock := v[11:]
	if v[2] == '/' {
		day, ok1 = digits(v[:2])
		at := bytes.Index(months, v[3:6])
		month, ok2 = at/3+1, at >= 0 && at%3 == 0 && v[6] == '/'
		year, ok3 = digits(v[7:11])
		clock = v[12:]
	} else {
		year, ok1 = digits(v[:4])
		month, ok2 = digits(v[5:7])
		day, ok3 = digits(v[8:10])
		ok3 = ok3 && v[7] == v[4]
	}
	if !ok1 || !ok2 || !ok3 || year == 0 {
		return 0, false, false
	}
	date, ok := dayOf(year, month, day)
	second, ok1 := readClock(clock)
	if !ok || !ok1 {
		return 0, false, false
	}
	zone, isLocal, ok := readZone(clock[len("15:04:05"):])
	return date*24*60*60 + second - zone, isLocal, ok
}

// readClock reads the 15:04:05 at the beginning of v.
func readClock(v []byte) (second int64, ok bool) {
	if len(v) < len("15:04:05") {
		return 0, false
	}
	h, ok1 := digits(v[:2])
	m, ok2 := digits(v[3:5])
	s, ok3 := digits(v[6:8])
	return int64(h*60+m)*60 + int64(s),
		ok1 && ok2 && ok3 && v[2] == ':' && v[5] == ':' && h <= 23 && m <= 59 && s <= 60
}

// readZone reads what is after the seconds: a fraction and the zone, and returns its seconds east of Greenwich.
func readZone(v []byte) (east int64, isLocal, ok bool) {
	if len(v) > 1 && (v[0] == '.' || v[0] == ',') {
		n := 1
		for n < len(v) && v[n] >= '0' && v[n] <= '9' {
			n++
		}
		if v = v[n:]; n == 1 {
			return 0, false, false
		}
	}
	if len(v) > 1 && v[0] == ' ' {
		v = v[1:]
	}
	switch {
	case len(v) == 0:
		return 0, true, true
	case len(v) == 1:
		return 0, false, v[0] == 'Z'
	case len(v) == len("-07:00") && v[3] == ':':
	case len(v) == len("-0700"):
	default:
		return 0, false, false
	}
	hour, ok1 := digits(v[1:3])
	minute, ok2 := digits(v[len(v)-2:])
	if east = int64(hour*60+minute) * 60; v[0] == '-' {
		east = -east
	}
	return east, false, ok1 && ok2 && hour <= 23 && minute <= 59 && (v[0] == '+' || v[0] == '-')
}

// readNumber reads seconds, milliseconds, microseconds or nanoseconds since 1970.
func readNumber(v []byte) (int64, bool) {
	whole, fraction, isFraction := bytes.Cut(v, []byte("."))
	_, digitsOnly := digits(fraction)
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || n < 0 || isFraction && !digitsOnly {
		return 0, false
	}
	for range 3 {
		if n >= 1e11 {
			n /= 1000
		}
	}
	return n, n < 1e11
}

var months = []byte("JanFebMarAprMayJunJulAugSepOctNovDec")

// dayOf returns the days since 1970; false if there is no such day. It is time.Date in a tenth of
// its time.
func dayOf(year, month, day int) (int64, bool) {
	isLeap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	if month < 1 || month > 12 {
		return 0, false
	}
	length := 30 + (month+month>>3)&1
	if month == 2 {
		length = 28
		if isLeap {
			length = 29
		}
	}
	if day < 1 || day > length {
		return 0, false
	}
	if month < 3 { // years begin in March, so that the leap day is their last
		year, month = year-1, month+12
	}
	const before1970 = 719_469
	return int64(365*year + year/4 - year/100 + year/400 + (153*month-457)/5 + day - before1970), true
}

// digits reads a whole number without a sign; nothing is 0.
func digits(v []byte) (n int, ok bool) {
	if len(v) > 9 {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// unescape appends v to buf without the escapes of nginx, Apache and JSON. An escape that none
// of them has stays as it is.
func unescape(buf, v []byte) []byte {
	for len(v) > 0 {
		at := bytes.IndexByte(v, '\\')
		if at < 0 || at == len(v)-1 {
			return append(buf, v...)
		}
		buf = append(buf, v[:at]...)
		var size int
		if buf, size = unescapeOne(buf, v[at:]); size == 0 {
			buf, size = append(buf, '\\'), 1
		}
		v = v[at+size:]
	}
	return buf
}

// unescapeOne appends what the escape at the beginning of v stands for, and returns its size.
func unescapeOne(buf, v []byte) ([]byte, int) {
	switch v[1] {
	case '"', '\\', '/', '\'':
		return append(buf, v[1]), 2
	case 'x':
		if n, ok := hexOf(v, 2, 2); ok {
			return append(buf, byte(n)), 4
		}
	case 'u':
		return unescapeUnicode(buf, v)
	default:
		if at := bytes.IndexByte([]byte("bfnrtv"), v[1]); at >= 0 {
			return append(buf, "\b\f\n\r\t\v"[at]), 2
		}
	}
	return buf, 0
}

func unescapeUnicode(buf, v []byte) ([]byte, int) {
	n, ok := hexOf(v, 2, 4)
	if !ok {
		return buf, 0
	}
	if n >= 0xd800 && n < 0xdc00 && len(v) >= 12 && v[6] == '\\' && v[7] == 'u' {
		if low, ok := hexOf(v, 8, 4); ok && low >= 0xdc00 && low < 0xe000 {
			return utf8.AppendRune(buf, (n-0xd800)<<10+low-0xdc00+0x10000), 12
		}
	}
	return utf8.AppendRune(buf, n), 6
}

// hexOf reads n digits of v from at on.
func hexOf(v []byte, at, n int) (value rune, ok bool) {
	if len(v) < at+n {
		return 0, false
	}
	for _, c := range v[at : at+n] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		value = value<<4 | rune(c)
	}
	return value, true
}
