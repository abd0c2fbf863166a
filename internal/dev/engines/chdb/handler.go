//go:build linux

package main

import (
	"fmt"
	"net/http"
	"strings"
)

// handler answers requests as a ClickHouse server does.
type handler struct {
	engine   *engine
	password string // empty: none is checked
	pong     string
	hello    hello
}

func newHandler(e *engine, password, pong string) (*handler, error) {
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
		return nil, fmt.Errorf("the engine tells its version as %q, want two fields", out)
	}
	return &handler{engine: e, password: password, pong: pong, hello: hello{version: fields[0], timezone: fields[1]}}, nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-ClickHouse-Server-Display-Name", displayName)
	w.Header().Set("X-ClickHouse-Timezone", h.hello.timezone)
	if r.URL.Path == "/ping" || r.Method == http.MethodGet && r.URL.RawQuery == "" {
		fmt.Fprintln(w, h.pong)
		return
	}
	a := newAnswer(w, r)
	if !h.allowed(r) {
		a.end(wrongPassword)
		return
	}
	req, err := readRequest(r)
	if err != nil {
		a.end(err)
		return
	}
	w.Header().Set("X-ClickHouse-Format", req.format)
	a.end(h.run(r, req, a))
}

// allowed reports whether r carries the password, in any of the three places
// where a server looks for it.
func (h *handler) allowed(r *http.Request) bool {
	_, basic, _ := r.BasicAuth()
	return h.password == "" ||
		first(r.Header.Get("X-ClickHouse-Key"), basic, r.URL.Query().Get("password")) == h.password
}

func (h *handler) run(r *http.Request, req *request, a *answer) error {
	s, err := h.engine.session(req.database, req.settings)
	if err != nil {
		return err
	}
	defer s.close()
	switch {
	case req.data != nil:
		sql, format := req.insert()
		return s.insert(sql, format, req.data)
	case isHello(req):
		return a.block(h.hello.encode(req.protocol))
	case isSelect(req):
		return s.stream(r.Context(), req.sql, req.format, a.block)
	}
	out, err := s.query(req.sql, req.format)
	if err != nil {
		return err
	}
	return a.block(out)
}

// isSelect reports whether the answer may be long and can be sent in pieces.
func isSelect(req *request) bool {
	word, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(req.sql, " \t\r\n(")), " ")
	return req.format == "Native" && (word == "SELECT" || word == "WITH")
}
