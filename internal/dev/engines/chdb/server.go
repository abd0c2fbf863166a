//go:build linux

package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// handler answers requests as a ClickHouse server does.
type handler struct {
	engine *engine
	pong   string
	hello  hello
}

func newHandler(e *engine, pong string) (*handler, error) {
	s, err := e.session("", nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	out, err := s.query("SELECT version(), timezone()", "TabSeparated")
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSpace(string(out)), "\t")
	if len(fields) != 2 {
		return nil, fmt.Errorf("the engine reports its version as %q, want two fields", out)
	}
	return &handler{engine: e, pong: pong, hello: hello{version: fields[0], timezone: fields[1]}}, nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-ClickHouse-Server-Display-Name", displayName)
	w.Header().Set("X-ClickHouse-Timezone", h.hello.timezone)
	if r.URL.Path == "/ping" || r.Method == http.MethodGet && r.URL.RawQuery == "" {
		fmt.Fprintln(w, h.pong)
		return
	}
	a := newAnswer(w, r)
	req, err := readRequest(r)
	if err != nil {
		a.end(err)
		return
	}
	w.Header().Set("X-ClickHouse-Format", req.format)
	a.end(h.run(r, req, a))
}

func (h *handler) run(r *http.Request, req *request, a *answer) error {
	s, err := h.engine.session(req.database, req.settings)
	if err != nil {
		return err
	}
	defer s.close()
	word, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(req.sql, " \t\r\n(")), " ")
	switch native := req.format == "Native"; {
	case req.data != nil:
		m := insertFormat.FindStringSubmatchIndex(req.sql)
		return s.insert(req.sql[:m[0]], req.sql[m[2]:m[3]], req.data)
	case native && req.sql == "SELECT displayName(), version(), revision(), timezone()": // the first of a connection
		return a.block(h.hello.encode(req.protocol))
	case native && (word == "SELECT" || word == "WITH"): // the answer may be long, and can be sent in pieces
		return s.stream(r.Context(), req.sql, req.format, a.block)
	}
	out, err := s.query(req.sql, req.format)
	if err != nil {
		return err
	}
	return a.block(out)
}

// maxStatement bounds a statement that comes in the body, in bytes.
const maxStatement = 64 << 20

// request is one HTTP request to the engine.
type request struct {
	sql      string
	format   string
	database string
	settings map[string]string
	// data is the body of an INSERT whose statement is in the address, else nil.
	data io.Reader
	// protocol is the client's protocol revision.
	protocol string
}

// parameters are those that the server itself reads; all others are settings.
var parameters = map[string]bool{
	"query": true, "database": true, "default_format": true, "client_protocol_version": true,
	"compress": true, "decompress": true, "user": true, "password": true, "quota_key": true,
	"query_id": true, "session_id": true, "session_timeout": true, "session_check": true,
	"stacktrace": true, "wait_end_of_query": true, "buffer_size": true, "role": true,
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func readRequest(r *http.Request) (*request, error) {
	q := r.URL.Query()
	settings, err := settingsOf(q)
	if err != nil {
		return nil, err
	}
	req := &request{
		format:   cmp.Or(q.Get("default_format"), r.Header.Get("X-ClickHouse-Format"), "TabSeparated"),
		database: cmp.Or(q.Get("database"), r.Header.Get("X-ClickHouse-Database")),
		settings: settings,
		protocol: q.Get("client_protocol_version"),
	}
	body := io.Reader(r.Body)
	if q.Get("decompress") == "1" {
		body = newFrames(r.Body)
	}
	return req, req.statement(q.Get("query"), body)
}

// statement finds the SQL: the parameter, then the body, joined unless the
// parameter alone is an INSERT that takes the body as data.
func (r *request) statement(param string, body io.Reader) error {
	if insertData.MatchString(param) {
		r.sql, r.data = param, body
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(body, maxStatement+1))
	if err != nil {
		return err
	}
	if len(text) > maxStatement {
		return exception(62, "the statement is longer than 64 MiB", "SYNTAX_ERROR")
	}
	r.sql = param + string(text)
	if strings.TrimSpace(r.sql) == "" {
		return exception(62, "Syntax error: failed at position 1 (end of query): empty query", "SYNTAX_ERROR")
	}
	return nil
}

// insertData matches an INSERT that ends before its data and names its format.
var insertData = regexp.MustCompile(`(?is)^\s*INSERT\s.*\bFORMAT\s+(\w+)\s*;?\s*$`)

// insertFormat is the end of an INSERT with data.
var insertFormat = regexp.MustCompile(`(?i)\s*\bFORMAT\s+(\w+)\s*;?\s*$`)

func settingsOf(q url.Values) (map[string]string, error) {
	settings := make(map[string]string)
	for name := range q {
		if parameters[name] {
			continue
		}
		if !identifier.MatchString(name) {
			return nil, exception(115, "Unknown setting '"+name+"'", "UNKNOWN_SETTING")
		}
		settings[name] = q.Get(name)
	}
	return settings, nil
}

// frames decompresses a body in ClickHouse's own format.
type frames struct {
	body  io.Reader
	n     int64 // compressed bytes read
	plain *compress.Reader
}

func newFrames(body io.Reader) *frames {
	f := &frames{body: body}
	f.plain = compress.NewReader(readerFunc(func(p []byte) (int, error) {
		n, err := f.body.Read(p)
		f.n += int64(n)
		return n, err
	}))
	return f
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Read returns io.EOF at the end of the body and io.ErrUnexpectedEOF inside a
// frame: ch-go wraps io.EOF in both cases.
func (f *frames) Read(p []byte) (int, error) {
	before := f.n
	n, err := f.plain.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if f.n != before {
		return n, io.ErrUnexpectedEOF
	}
	return n, io.EOF
}

// exceptionTag is in the place of a server's random word, between the marker and
// the text of an exception after the first block.
const exceptionTag = "docgaugeexceptio"

// answer writes the result of one request. Nothing is sent before the first
// block, so that an error up to there has its own status.
type answer struct {
	http.ResponseWriter
	frames *compress.Writer
	sent   bool
}

func newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{ResponseWriter: w}
	if r.URL.Query().Get("compress") == "1" {
		a.frames = compress.NewWriter(compress.LevelZero, compress.LZ4)
	}
	return a
}

// block sends one piece of the result.
func (a *answer) block(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if !a.sent {
		a.Header().Set("Content-Type", "application/octet-stream")
		a.Header().Set("X-ClickHouse-Exception-Tag", exceptionTag)
		a.sent = true
	}
	for piece := range slices.Chunk(data, 1<<20) {
		if a.frames != nil {
			if err := a.frames.Compress(piece); err != nil {
				return err
			}
			piece = a.frames.Data
		}
		if _, err := a.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// end finishes the answer. An empty one needs Content-Length, or clickhouse-go
// would wait for a block.
func (a *answer) end(err error) {
	var e *engineError
	if err != nil && !errors.As(err, &e) {
		e = exception(1000, err.Error(), "POCO_EXCEPTION")
	}
	switch {
	case e != nil && a.sent:
		fmt.Fprintf(a, "\r\n__exception__\r\n%s\r\n%s\n%d %s\r\n__exception__\r\n",
			exceptionTag, e.Text, len(e.Text)+1, exceptionTag)
	case e != nil:
		a.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		a.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
		a.WriteHeader(e.status())
		fmt.Fprintln(a, e.Text)
	case !a.sent:
		a.Header().Set("Content-Length", "0")
		a.WriteHeader(http.StatusOK)
	}
}

const displayName = "chdb"

// customSerialization is the protocol revision from which a column carries a
// flag before its data.
const customSerialization = 54454

// hello answers the first query of clickhouse-go. The client reads it at its
// own revision, and every later answer at the revision it names: 0, which is
// how the library writes Native.
type hello struct{ version, timezone string }

// encode writes the answer as one Native block of one row at the revision protocol.
func (h hello) encode(protocol string) []byte {
	revision, _ := strconv.Atoi(protocol)
	var b []byte
	if revision > 0 {
		b = append(b, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0)
	}
	b = append(b, 4, 1)
	column := func(name, kind string, data []byte) {
		b = appendString(appendString(b, name), kind)
		if revision >= customSerialization {
			b = append(b, 0)
		}
		b = append(b, data...)
	}
	column("displayName()", "String", appendString(nil, displayName))
	column("version()", "String", appendString(nil, h.version))
	column("revision()", "UInt32", make([]byte, 4))
	column("timezone()", "String", appendString(nil, h.timezone))
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
