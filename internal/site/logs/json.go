package logs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/textproto"
	"strings"
	"sync"
)

// jsonForms are the keys of servers' JSON logs, by what they mean: meaning=key, where a dot leads into an object, and of
// a list the first string counts, of X-Forwarded-For all. A key with a question mark counts only in a line without
// another of its meaning. Headers of requests are named here that say what the client says of itself, and what
// proxies have added: no other one is read, so that no client can name its address, host, path or status. The keys of
// purposeHeaders are beside the key of Accept.
var jsonForms = []struct{ name, keys string }{
	{"caddy", `time=ts peer=request.remote_ip client=request.client_ip host=request.host method=request.method
		path=request.uri status=status agent=request.headers.User-Agent accept=request.headers.Accept
		forwarded=request.headers.X-Forwarded-For type=resp_headers.Content-Type referrer=request.headers.Referer
		bytes=size`},
	// ClientHost is X-Forwarded-For, from proxies that Traefik trusts.
	{"traefik", `time=time time=StartUTC? peer=ClientAddr client=ClientHost host=RequestHost method=RequestMethod
		path=RequestPath status=DownstreamStatus agent=request_User-Agent accept=request_Accept
		forwarded=request_X-Forwarded-For type=downstream_Content-Type referrer=request_Referer
		bytes=DownstreamContentSize`},
	{"cloudflare", `time=EdgeStartTimestamp client=ClientIP host=ClientRequestHost method=ClientRequestMethod
		path=ClientRequestURI path=ClientRequestPath? status=EdgeResponseStatus agent=ClientRequestUserAgent
		accept=RequestHeaders.accept type=EdgeResponseContentType source=ClientRequestSource
		referrer=ClientRequestReferer bytes=EdgeResponseBytes id=RayID`},
	{"nginx", `time=time_iso8601 time=time_local time=msec time=time time=@timestamp client=remote_addr
		peer=realip_remote_addr forwarded=http_x_forwarded_for forwarded=proxy_add_x_forwarded_for host=http_host
		host=host? host=server_name? method=request_method path=request_uri path=uri? request=request status=status
		agent=http_user_agent accept=http_accept type=sent_http_content_type referrer=http_referer bytes=body_bytes_sent
		bytes=bytes_sent`},
	{"vercel", `time=proxy.timestamp time=timestamp? client=proxy.clientIp host=proxy.host host=host? method=proxy.method
		path=proxy.path path=path? status=proxy.statusCode status=statusCode? agent=proxy.userAgent referrer=proxy.referer
		bytes=proxy.responseByteSize deployed=deploymentId id=requestId`},
	{"netlify", `time=timestamp? client=client_ip? method=method? path=url? status=status_code? agent=user_agent?
		type=content_type? referrer=referrer`},
	{"fastly", `time=timestamp? client=client_ip? host=host? method=request_method path=url? status=response_status?
		agent=request_user_agent? referrer=request_referer bytes=response_body_size source=fastly_is_edge`},
	{"google", `time=timestamp? client=httpRequest.remoteIp method=httpRequest.requestMethod path=httpRequest.requestUrl
		status=httpRequest.status agent=httpRequest.userAgent referrer=httpRequest.referer bytes=httpRequest.responseSize`},
	// The client's address is what the client says in X-Forwarded-For.
	{"azure", `time=time client=properties.socketIp forwarded=properties.clientIp client=properties.socketIP
		forwarded=properties.clientIP host=properties.hostName method=properties.httpMethod path=properties.requestUri
		status=properties.httpStatusCode agent=properties.userAgent referrer=properties.referer
		bytes=properties.responseBytes source=properties.isReceivedFromClient`},
	{"ecs", `time=@timestamp client=client.ip client=client.address? client=source.ip? client=source.address?
		host=url.domain method=http.request.method path=url.original path=url.full? path=url.path?
		status=http.response.status_code agent=user_agent.original type=http.response.mime_type
		referrer=http.request.referrer bytes=http.response.body.bytes bytes=http.response.bytes`},
	{"lograge", `time=@timestamp time=time time=timestamp? client=remote_ip? client=ip? host=host? method=method?
		path=path? status=status agent=user_agent? forwarded=x_forwarded_for referrer=referer? referrer=referrer bytes=bytes?`},
	{"envoy", `time=start_time client=downstream_remote_address? host=authority host=:authority method=method?
		path=path? status=response_code agent=user_agent? forwarded=x_forwarded_for
		referrer=referer? bytes=bytes_sent`},
	{"mintlify", `time=created_at client=ip? host=subdomain path=path? agent=user_agent? event=event`},
	{"pino", `time=time client=req.remoteAddress method=req.method path=req.url status=res.statusCode
		agent=req.headers.user-agent accept=req.headers.accept forwarded=req.headers.x-forwarded-for
		referrer=req.headers.referer bytes=res.headers.content-length`},
	{"json", `time=ts time=datetime? client=clientIp? client=clientip? client=remoteAddr? client=remoteAddress?
		client=remoteIp? host=vhost? method=http_method? method=requestMethod? path=requestUri? status=statusCode?
		agent=userAgent? agent=ua? accept=accept? type=contentType? reader=visitor kind=kind referrer=referer? bytes=bytes?
		mode=sec_fetch_mode? id=request_id`},
	// Lines in lines: of Docker, Fluent Bit, journald, Logstash, Google.
	{"", `line=log stream=stream line=message line=MESSAGE line=textPayload time=__REALTIME_TIMESTAMP?`},
}

// node is a step into an object: what its keys mean.
type node struct {
	field  field
	isWeak bool    // another key of the same meaning counts more
	forms  uint32  // those that have the key, by their place in jsonForms
	slots  [][]key // a power of two
}

// key is one of an object's, in the slot of its hash.
type key struct {
	name string
	node *node
}

func hashOf(name []byte) uint {
	if len(name) == 0 {
		return 0
	}
	return uint(len(name))*5 + uint(name[0])*3 + uint(name[len(name)/2])*7 + uint(name[len(name)-1])
}

func (n *node) at(name []byte) *node {
	if n == nil || n.slots == nil {
		return nil
	}
	slot := n.slots[hashOf(name)&uint(len(n.slots)-1)]
	for i := range slot {
		if k := &slot[i]; k.name == string(name) {
			return k.node
		}
	}
	return nil
}

// newNode returns the object whose keys are the keys of tree.
func (t tree) node() *node {
	n := &node{field: t.field, isWeak: t.isWeak, forms: t.forms}
	if len(t.below) > 0 {
		n.slots = make([][]key, 1<<bits.Len(uint(2*len(t.below))))
	}
	for name, below := range t.below {
		at := hashOf([]byte(name)) & uint(len(n.slots)-1)
		n.slots[at] = append(n.slots[at], key{name, below.node()})
	}
	return n
}

// tree is a node that grows.
type tree struct {
	field  field
	isWeak bool
	forms  uint32
	below  map[string]*tree
}

// add adds a key.
func (t *tree) add(path []string, f field, isWeak bool, form uint32) {
	for _, part := range path {
		if t.below == nil {
			t.below = map[string]*tree{}
		}
		if t.below[part] == nil {
			t.below[part] = &tree{}
		}
		t = t.below[part]
	}
	if t.field == none {
		t.isWeak = isWeak
	}
	t.field, t.isWeak, t.forms = f, t.isWeak && isWeak, t.forms|form
}

// jsonKeys are all keys of jsonForms.
var jsonKeys = sync.OnceValue(func() *node { return keysOf("") })

// keysOf returns the keys of a form, or of all.
func keysOf(form string) *node {
	t := &tree{}
	for i, known := range jsonForms {
		if form != "" && form != known.name {
			continue
		}
		for pair := range strings.FieldsSeq(known.keys) {
			name, key, _ := strings.Cut(pair, "=")
			f := fieldNames[name] | ourFieldNames[name] // one of them
			key, isWeak := strings.CutSuffix(key, "?")
			t.add(strings.Split(key, "."), f, isWeak, 1<<i)
			if known.name == "ecs" { // or flat
				t.add([]string{key}, f, isWeak, 1<<i)
			}
			for header, f := range purposeHeaders {
				if key, ok := besideAccept(key, header); ok && name == "accept" {
					t.add(strings.Split(key, "."), f, false, 1<<i)
				}
			}
		}
	}
	return t.node()
}

// besideAccept returns the key of another header, spelled as the key of Accept is, if that has something before it.
func besideAccept(accept, header string) (key string, ok bool) {
	if prefix, ok := strings.CutSuffix(accept, "Accept"); ok {
		return prefix + textproto.CanonicalMIMEHeaderKey(header), true
	}
	prefix, ok := strings.CutSuffix(accept, "accept")
	if strings.HasSuffix(prefix, "_") {
		header = strings.ReplaceAll(header, "-", "_")
	}
	return prefix + header, ok && prefix != ""
}

// parseKeys reads the key names of json:time=ts,client=ip,…
func parseKeys(text string) (*object, error) {
	t, o, has := &tree{}, &object{}, map[field]bool{}
	for pair := range strings.SplitSeq(text, ",") {
		name, key, ok := strings.Cut(strings.TrimSpace(pair), "=")
		f, known := fieldNames[name]
		if !ok || key == "" || !known {
			return nil, fmt.Errorf("%.60q: want name=key; the names are time, client, forwarded, host, method, path, "+
				"request, status, agent, accept, type, referrer, mode and bytes", pair)
		}
		o.keys = append(o.keys, Key{name, key})
		t.add(strings.Split(key, "."), f, false, keyBit(len(o.keys)-1))
		has[f] = true
	}
	for name, ok := range map[string]bool{
		"time": has[when], "path": has[target] || has[request], "client": has[client] || has[forwarded],
	} {
		if !ok {
			return nil, fmt.Errorf("no key for %s", name)
		}
	}
	o.root = t.node()
	if !has[method] && !has[request] {
		o.known.Method = []byte("GET")
	}
	if !has[status] {
		o.known.Status = 200
	}
	return o, nil
}

// Key is a key of json:name=key,…
type Key struct{ Meaning, Name string }

// keyBit is the form of a key that a setting names, by its place; hasObject is set where there was any object.
func keyBit(i int) uint32 { return 1 << min(i, 30) }

const hasObject = 1 << 31

// Keys returns which keys of json:… the lines had since the last call, for [Format.MissingKeys]. Keys of several logs
// are joined by |.
func (p *Parser) Keys() (keys uint32) {
	if p.object != nil {
		keys, p.object.seen = p.object.seen, 0
	}
	return keys
}

// MissingKeys returns the keys of json:… that no line had, nor another key of the same meaning, if there were objects.
func (f Format) MissingKeys(keys uint32) (missing []Key) {
	if f.object == nil || keys&hasObject == 0 {
		return nil
	}
	has := map[string]bool{}
	for i, key := range f.object.keys {
		has[key.Meaning] = has[key.Meaning] || keys&keyBit(i) != 0
	}
	for _, key := range f.object.keys {
		if !has[key.Meaning] {
			missing = append(missing, key)
		}
	}
	return missing
}

// object reads lines that are JSON objects. It accepts what encoding/json accepts, and needs no
// memory for what nobody asked for.
type object struct {
	root    *node
	keys    []Key  // that a setting names; each is the form of itself
	seen    uint32 // the forms of all keys in all lines
	known   Line   // of a format that leaves parts out
	usual   member // the members of earlier lines, with which a line is compared
	kept    int    // members in usual
	into    *Line
	text    []byte // the line
	pos     int    // of what is not yet read
	scratch []byte

	strong uint64 // fields that are set by a key that counts more than others of its meaning
	forms  uint32 // that have all keys so far
	inner  []byte // a line in the line
	source []byte // of the request: eyeball or true if it is a client's, else the CDN's own
	stream []byte // of a container
	id     []byte // of the request
	// isVercel: the line is of a drain of Vercel.
	isVercel bool
}

// parse reads a line. It returns errRequest for an object that lacks what a request has.
func (o *object) parse(line []byte, into *Line) error {
	*into = Line{}
	o.into, o.text, o.pos, o.scratch = into, line, 0, o.scratch[:0]
	o.strong, o.forms, o.inner, o.source, o.stream = 0, 1<<len(jsonForms)-1, nil, nil, nil
	o.id, o.isVercel = nil, false
	if o.next() != '{' {
		return errJSON
	}
	if err := o.value(o.root, &o.usual, 0); err != nil {
		return err
	}
	if o.next(); o.pos < len(o.text) {
		return errJSON
	}
	if len(into.Client)+len(into.Forwarded)+len(into.Peer) == 0 || len(into.Target)+len(into.Method) == 0 {
		return errRequest
	}
	if into.Time == 0 {
		return errTime
	}
	if len(into.Method) == 0 {
		into.Method = o.known.Method
	}
	if into.Status == 0 {
		into.Status = o.known.Status
	}
	return nil
}

// form is the name of the form whose keys the line has.
func (o *object) form() string {
	if at := bits.TrailingZeros32(o.forms); at < len(jsonForms) {
		return jsonForms[at].name
	}
	return "json"
}

// set sets the part of a line that a key means.
func (o *object) set(at *node, value []byte) error {
	f := at.field
	o.seen |= at.forms
	if len(value) == 0 {
		return nil
	}
	switch bit := uint64(1) << f; {
	case f == inner:
		o.inner = value
		return nil
	case f == stream:
		o.stream = value
		return nil
	case f == deployed:
		o.isVercel = true
		return nil
	case f == requestID:
		o.id = value
		return nil
	case f == source:
		o.source = value
	case f == forwarded:
		if len(o.into.Forwarded) > 0 { // another line of the header
			before := len(o.scratch)
			o.scratch = append(append(append(o.scratch, o.into.Forwarded...), ", "...), value...)
			value = o.scratch[before:]
		}
	case !at.isWeak:
		o.strong |= bit
	case o.strong&bit != 0:
		return nil
	}
	o.forms &= at.forms
	if err := o.into.set(f, value); f != when { // another key may say the time, or the line that this one is in
		return err
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

// member is a member of an object as another line had it. Most lines of a log have the same members in the same order, and
// a comparison of bytes takes less than half the time of reading them.
type member struct {
	key    []byte // with its quotes and the colon; empty: not known
	in     *node  // the object
	node   *node  // of the key
	value  []byte // one that means nothing
	inside []member
}

const (
	// maxMembers is the number of members that an object keeps at most, and maxMember the length of their keys and values.
	maxMembers = 256
	maxMember  = 1 << 10
)

// value reads a value; at says what it means, nil if nothing, and usual is its member, nil if that is not known.
func (o *object) value(at *node, usual *member, depth int) error {
	c := o.next()
	if depth > deepest {
		return errJSON
	}
	switch {
	case c == '{':
		return o.members(at, usual, depth)
	case c == '[':
		return o.elements(at, depth)
	case c == '"':
		v, err := o.string(at != nil && at.field != none)
		if err != nil || at == nil || at.field == none {
			return err
		}
		return o.set(at, v)
	case c == '-' || c >= '0' && c <= '9':
		v, ok := o.number()
		if !ok {
			return errJSON
		}
		if at == nil || at.field == none {
			return nil
		}
		return o.set(at, v)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(o.text[o.pos:], []byte(word)) {
			o.pos += len(word)
			if at != nil && at.field == source && word == "false" {
				o.source = []byte(word)
			}
			return nil
		}
	}
	return errJSON
}

func (o *object) members(at *node, usual *member, depth int) error {
	o.pos++
	if o.is('}') {
		return nil
	}
	for i := 0; ; i++ {
		if o.next() != '"' {
			return errJSON
		}
		var m *member
		if usual != nil {
			if i == len(usual.inside) && o.kept < maxMembers {
				usual.inside, o.kept = append(usual.inside, member{}), o.kept+1
			}
			if i < len(usual.inside) {
				m = &usual.inside[i]
			}
		}
		var of *node
		if m != nil && len(m.key) > 0 && m.in == at && bytes.HasPrefix(o.text[o.pos:], m.key) {
			o.pos, of = o.pos+len(m.key), m.node
		} else {
			begin := o.pos
			key, err := o.string(at != nil && at.slots != nil)
			if err != nil || !o.is(':') {
				return errJSON
			}
			of = at.at(key)
			if m != nil && o.pos-begin <= maxMember {
				m.key, m.in, m.node = append(m.key[:0], o.text[begin:o.pos]...), at, of
			}
		}
		isMeant := of != nil && (of.field != none || of.slots != nil)
		begin := o.pos
		if !isMeant && m != nil && len(m.value) > 0 && bytes.HasPrefix(o.text[begin:], m.value) {
			o.pos += len(m.value)
			if o.is('}') {
				return nil
			}
			if o.is(',') {
				continue
			}
			o.pos = begin // a longer number
		}
		if err := o.value(of, m, depth+1); err != nil {
			return err
		}
		if text := o.text[begin:o.pos]; !isMeant && m != nil && len(text) <= maxMember {
			m.value = append(m.value[:0], text...)
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
		if err := o.value(at, nil, depth+1); err != nil {
			return err
		}
		if at != nil && at.field != forwarded {
			at = nil // the first counts
		}
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
	if text[i] == '-' {
		i++
	}
	whole := digitsEnd(text, i)
	if i < len(text) && text[i] == '0' {
		whole = i + 1
	}
	if whole == i {
		return nil, false
	}
	i = whole
	if i < len(text) && text[i] == '.' {
		from := i + 1
		if i = digitsEnd(text, from); i == from {
			return nil, false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		from := i
		if i = digitsEnd(text, from); i == from {
			return nil, false
		}
	}
	o.pos += i
	return text[:i], true
}

// digitsEnd returns where the digits in text from i on end.
func digitsEnd(text []byte, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}
