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
	"time"
	"unicode/utf8"
)

// Line has the parts of a line, unescaped. Its slices are valid until the parser
// reads the next line. Missing parts are empty.
type Line struct {
	Time      int64  // Unix seconds
	Client    []byte // address
	Forwarded []byte // X-Forwarded-For
	Host      []byte
	Method    []byte
	Target    []byte // of the request: path and query
	Status    int
	UserAgent []byte
	Accept    []byte // the request's header
	Type      []byte // Content-Type of the response

	// An event names what other lines are asked for.
	Event   []byte // of the platform: docs.content.view or docs.content.md.view
	Reader  []byte // of the sandbox
	Kind    []byte // of the sandbox: human or ai
	Project []byte
}

// Errors of lines, by the part that does not follow the format.
var (
	errForm    = errors.New("does not follow the format")
	errTime    = errors.New("time: does not exist")
	errStatus  = errors.New("status: want three digits")
	errJSON    = errors.New("is not one JSON object")
	errColumns = errors.New("columns: want as many as the #Fields line names")
)

// field is a part of a line.
type field int

const (
	none field = iota
	client
	forwarded
	host
	method
	target
	status
	userAgent
	accept
	contentType
	request // method, target and protocol
	timeLocal
	timeISO
	timeUnix // seconds, milliseconds or more since 1970, with or without a fraction
	date
	clock
	event
)

// fieldNames are the names in json:name=key,…
var fieldNames = map[string]field{
	"time": timeISO, "client": client, "forwarded": forwarded, "host": host, "method": method, "path": target,
	"request": request, "status": status, "agent": userAgent, "accept": accept, "type": contentType,
}

// set sets a part of a line.
func (l *Line) set(f field, value []byte) error {
	switch f {
	case client:
		if bytes.IndexByte(value, ' ') >= 0 {
			return errForm
		}
		l.Client = value
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
		if !ok || len(value) != 3 {
			return errStatus
		}
		l.Status = n
	case userAgent:
		l.UserAgent = dashed(value)
	case accept:
		l.Accept = dashed(value)
	case contentType:
		l.Type = dashed(value)
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
	case timeLocal, timeISO, timeUnix:
		return l.setTime(value)
	case event:
		l.Event = value
	}
	return nil
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

// setTime reads a time of any form: they cannot be confused.
func (l *Line) setTime(value []byte) error {
	t, ok := readTime(value)
	if !ok {
		return errTime
	}
	l.Time = t
	return nil
}

func readTime(v []byte) (int64, bool) {
	switch {
	case len(v) == len("02/Jan/2006:15:04:05 -0700") && v[2] == '/':
		return readLocal(v)
	case len(v) > 10 && v[4] == '-':
		t, err := time.Parse(time.RFC3339, string(v))
		if err != nil { // the zone without its colon
			t, err = time.Parse("2006-01-02T15:04:05Z0700", string(v))
		}
		return t.Unix(), err == nil
	}
	whole, fraction, isFraction := bytes.Cut(v, []byte("."))
	_, digitsOnly := digits(fraction)
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || n < 0 || isFraction && !digitsOnly {
		return 0, false
	}
	for range 3 { // milliseconds, microseconds, nanoseconds
		if n >= 1e11 {
			n /= 1000
		}
	}
	return n, n < 1e11
}

var months = []byte("JanFebMarAprMayJunJulAugSepOctNovDec")

// readLocal reads 02/Jan/2006:15:04:05 -0700.
func readLocal(v []byte) (int64, bool) {
	day, ok1 := digits(v[:2])
	month := bytes.Index(months, v[3:6])
	year, ok2 := digits(v[7:11])
	hour, ok3 := digits(v[12:14])
	minute, ok4 := digits(v[15:17])
	second, ok5 := digits(v[18:20])
	zoneHour, ok6 := digits(v[22:24])
	zoneMinute, ok7 := digits(v[24:26])
	ok := ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7
	if !ok || month < 0 || month%3 != 0 ||
		v[6] != '/' || v[11] != ':' || v[14] != ':' || v[17] != ':' || v[20] != ' ' ||
		hour > 23 || minute > 59 || second > 60 || zoneHour > 23 || zoneMinute > 59 || year == 0 {
		return 0, false
	}
	date, ok := dayOf(year, month/3+1, day)
	if !ok {
		return 0, false
	}
	zone := int64(zoneHour*60+zoneMinute) * 60
	switch v[21] {
	case '+':
	case '-':
		zone = -zone
	default:
		return 0, false
	}
	return date*24*60*60 + int64(hour*60+minute)*60 + int64(second) - zone, true
}

// dayOf returns the days since 1970; false if there is no such day. It is time.Date in a tenth of
// its time.
func dayOf(year, month, day int) (int64, bool) {
	isLeap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
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
