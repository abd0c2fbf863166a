package logs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"strings"
)

// The key names of servers' JSON logs: a dot leads into an object, and of a list the first
// string counts.
var (
	caddyKeys = map[string]field{
		"ts": timeUnix, "request.remote_ip": client, "request.headers.X-Forwarded-For": forwarded,
		"request.host": host, "request.method": method, "request.uri": target, "status": status,
		"request.headers.User-Agent": userAgent, "request.headers.Accept": accept,
		"resp_headers.Content-Type": contentType,
	}
	traefikKeys = map[string]field{
		"time": timeISO, "ClientHost": client, "request_X-Forwarded-For": forwarded, "RequestHost": host,
		"RequestMethod": method, "RequestPath": target, "DownstreamStatus": status,
		"request_User-Agent": userAgent, "request_Accept": accept, "downstream_Content-Type": contentType,
	}
	nginxKeys = map[string]field{
		"time_iso8601": timeISO, "time_local": timeLocal, "msec": timeUnix, "time": timeISO, "@timestamp": timeISO,
		"remote_addr": client, "http_x_forwarded_for": forwarded, "host": host, "http_host": host,
		"request_method": method, "request_uri": target, "request": request, "status": status,
		"http_user_agent": userAgent, "http_accept": accept, "sent_http_content_type": contentType,
	}
	cloudflareKeys = map[string]field{
		"EdgeStartTimestamp": timeISO, "ClientIP": client, "ClientRequestHost": host,
		"ClientRequestMethod": method, "ClientRequestURI": target, "EdgeResponseStatus": status,
		"ClientRequestUserAgent": userAgent, "RequestHeaders.accept": accept,
		"EdgeResponseContentType": contentType,
	}
	mintlifyKeys = map[string]field{
		"created_at": timeISO, "ip": client, "subdomain": host, "path": target, "user_agent": userAgent, "event": event,
	}
)

// node is a step into an object: what its keys mean.
type node struct {
	field field
	keys  []key
}

// key is one of an object's. There are few, so that looking at each is faster than a map.
type key struct {
	name string
	node *node
}

func (n *node) at(name []byte) *node {
	if n == nil {
		return nil
	}
	for i := range n.keys {
		if k := &n.keys[i]; k.name == string(name) {
			return k.node
		}
	}
	return nil
}

func newNode(keys map[string]field) *node {
	root := &node{}
	for name, f := range keys {
		at := root
		for part := range strings.SplitSeq(name, ".") {
			below := at.at([]byte(part))
			if below == nil {
				below = &node{}
				at.keys = append(at.keys, key{part, below})
			}
			at = below
		}
		at.field = f
	}
	return root
}

// parseKeys reads the key names of json:time=ts,client=ip,…
func parseKeys(text string) (map[string]field, error) {
	keys, has := map[string]field{}, map[field]bool{}
	for pair := range strings.SplitSeq(text, ",") {
		name, key, ok := strings.Cut(strings.TrimSpace(pair), "=")
		f, known := fieldNames[name]
		if !ok || key == "" || !known {
			return nil, fmt.Errorf("%.60q: want name=key; the names are time, client, forwarded, host, method, path, "+
				"request, status, agent, accept and type", pair)
		}
		keys[key], has[f] = f, true
	}
	for name, ok := range map[string]bool{
		"time": has[timeISO], "path": has[target] || has[request], "client": has[client] || has[forwarded],
	} {
		if !ok {
			return nil, fmt.Errorf("no key for %s", name)
		}
	}
	return keys, nil
}

// object reads lines that are JSON objects. It accepts what encoding/json accepts, and needs no
// memory for what nobody asked for.
type object struct {
	root    *node
	known   Line // of a format that leaves parts out
	into    *Line
	text    []byte // the line
	pos     int    // of what is not yet read
	scratch []byte
}

func newObject(keys map[string]field) *object {
	o := &object{root: newNode(keys)}
	has := func(want field) bool {
		for f := range maps.Values(keys) {
			if f == want {
				return true
			}
		}
		return false
	}
	if !has(method) && !has(request) {
		o.known.Method = []byte("GET")
	}
	if !has(status) {
		o.known.Status = 200
	}
	return o
}

func (o *object) clone() parser { return &object{root: o.root, known: o.known} }

func (o *object) parse(line []byte, into *Line) error {
	*into = o.known
	o.into, o.text, o.pos, o.scratch = into, line, 0, o.scratch[:0]
	if o.next() != '{' {
		return errJSON
	}
	if err := o.value(o.root, 0); err != nil {
		return err
	}
	if o.next(); o.pos < len(o.text) {
		return errJSON
	}
	if into.Time == 0 {
		return errTime
	}
	return nil
}

// deepest is how deep values may be in one another.
const deepest = 100

// next skips space and returns the byte after it, 0 at the end.
func (o *object) next() byte {
	for o.pos < len(o.text) {
		c := o.text[o.pos]
		if c > ' ' || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
		o.pos++
	}
	return 0
}

// is reads c, with space before it.
func (o *object) is(c byte) bool {
	if o.next() != c {
		return false
	}
	o.pos++
	return true
}

// value reads a value; at says what it means, nil if nothing.
func (o *object) value(at *node, depth int) error {
	c := o.next()
	if depth > deepest {
		return errJSON
	}
	switch {
	case c == '{':
		return o.members(at, depth)
	case c == '[':
		return o.elements(at, depth)
	case c == '"':
		v, err := o.string(at != nil && at.field != none)
		if err != nil || at == nil || at.field == none {
			return err
		}
		return o.into.set(at.field, v)
	case c == '-' || c >= '0' && c <= '9':
		v, ok := o.number()
		if !ok {
			return errJSON
		}
		if at == nil || at.field == none {
			return nil
		}
		return o.into.set(at.field, v)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(o.text[o.pos:], []byte(word)) {
			o.pos += len(word)
			return nil
		}
	}
	return errJSON
}

func (o *object) members(at *node, depth int) error {
	o.pos++
	if o.is('}') {
		return nil
	}
	for {
		if o.next() != '"' {
			return errJSON
		}
		key, err := o.string(at != nil && at.keys != nil)
		if err != nil || !o.is(':') {
			return errJSON
		}
		if err := o.value(at.at(key), depth+1); err != nil {
			return err
		}
		if o.is('}') {
			return nil
		}
		if !o.is(',') {
			return errJSON
		}
	}
}

func (o *object) elements(at *node, depth int) error {
	o.pos++
	if o.is(']') {
		return nil
	}
	for {
		if err := o.value(at, depth+1); err != nil {
			return err
		}
		at = nil // the first counts
		if o.is(']') {
			return nil
		}
		if !o.is(',') {
			return errJSON
		}
	}
}

// string reads a string; without wanted it returns nothing.
func (o *object) string(wanted bool) ([]byte, error) {
	text, isEscape := o.text[o.pos+1:], false
	for i := plain(text); i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			o.pos += i + 2
			if !wanted {
				return nil, nil
			}
			if !isEscape {
				return text[:i], nil
			}
			before := len(o.scratch)
			o.scratch = unescape(o.scratch, text[:i])
			return o.scratch[before:], nil
		case c < ' ':
			return nil, errJSON
		case c == '\\':
			isEscape = true
			if i++; i == len(text) || bytes.IndexByte([]byte(`"\/bfnrtu`), text[i]) < 0 {
				return nil, errJSON
			}
			if text[i] == 'u' {
				if _, ok := hexOf(text, i+1, 4); !ok {
					return nil, errJSON
				}
			}
		}
	}
	return nil, errJSON
}

// plain returns how many bytes at the beginning of text, looked at eight at a time, neither end a
// string nor escape nor are forbidden in it; there may be a few more near the end.
func plain(text []byte) (n int) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(text); n += 8 {
		x := binary.LittleEndian.Uint64(text[n:])
		quote, escape := x^'"'*ones, x^'\\'*ones
		if found := ((x-' '*ones)&^x | (quote-ones)&^quote | (escape-ones)&^escape) & high; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	return n
}

// number reads a number of JSON's grammar.
func (o *object) number() (v []byte, ok bool) {
	text, i := o.text[o.pos:], 0
	run := func() bool {
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		return i > from
	}
	if text[i] == '-' {
		i++
	}
	if i < len(text) && text[i] == '0' {
		i++
	} else if !run() {
		return nil, false
	}
	if i < len(text) && text[i] == '.' {
		if i++; !run() {
			return nil, false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if !run() {
			return nil, false
		}
	}
	o.pos += i
	return text[:i], true
}
