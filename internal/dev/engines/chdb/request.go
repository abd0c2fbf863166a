//go:build linux

package main

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// maxStatement bounds a statement that comes in the body, in bytes.
const maxStatement = 64 << 20

// request is what one HTTP request asks of the engine.
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

// mine are the parameters that the server itself reads; the others are settings.
var mine = map[string]bool{
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
		format:   first(q.Get("default_format"), r.Header.Get("X-ClickHouse-Format"), "TabSeparated"),
		database: first(q.Get("database"), r.Header.Get("X-ClickHouse-Database")),
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
		return &engineError{Code: 62, Text: "Code: 62. DB::Exception: the statement is longer than 64 MiB. (SYNTAX_ERROR)"}
	}
	r.sql = param + string(text)
	if strings.TrimSpace(r.sql) == "" {
		return &engineError{Code: 62, Text: "Code: 62. DB::Exception: Syntax error: failed at position 1 (end of query): empty query. (SYNTAX_ERROR)"}
	}
	return nil
}

// insertData matches an INSERT that ends before its data and names its format.
var insertData = regexp.MustCompile(`(?is)^\s*INSERT\s.*\bFORMAT\s+(\w+)\s*;?\s*$`)

// insert splits an INSERT with data into the statement and the format.
func (r *request) insert() (sql, format string) {
	m := insertFormat.FindStringSubmatchIndex(r.sql)
	return r.sql[:m[0]], r.sql[m[2]:m[3]]
}

var insertFormat = regexp.MustCompile(`(?i)\s*\bFORMAT\s+(\w+)\s*;?\s*$`)

func settingsOf(q url.Values) (map[string]string, error) {
	settings := make(map[string]string)
	for name := range q {
		if mine[name] {
			continue
		}
		if !identifier.MatchString(name) {
			return nil, &engineError{Code: 115, Text: "Code: 115. DB::Exception: Unknown setting '" + name + "'. (UNKNOWN_SETTING)"}
		}
		settings[name] = q.Get(name)
	}
	return settings, nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// frames decompresses a body in ClickHouse's own format.
type frames struct {
	raw   *counter
	plain *compress.Reader
}

func newFrames(body io.Reader) *frames {
	raw := &counter{Reader: body}
	return &frames{raw: raw, plain: compress.NewReader(raw)}
}

// Read tells the end of the body from a body cut inside a frame: ch-go wraps
// io.EOF in both cases.
func (f *frames) Read(p []byte) (int, error) {
	before := f.raw.n
	n, err := f.plain.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if f.raw.n != before {
		return n, io.ErrUnexpectedEOF
	}
	return n, io.EOF
}

type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}
