//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"unsafe"
)

// engine is the library with its storage open. Its base connection lives as
// long as the process: the engine would stop with its last connection.
type engine struct {
	lib  *library
	path string
	base unsafe.Pointer
}

// openEngine opens the storage at path; arguments go to the engine, which reads
// them at the first connection only.
func openEngine(lib *library, path string, arguments ...string) (*engine, error) {
	lib.setSignalHandlers(0)
	base, err := lib.open(append([]string{"--path=" + path}, arguments...)...)
	if err != nil {
		return nil, err
	}
	return &engine{lib: lib, path: path, base: base}, nil
}

// session is one connection of the engine, used for one request and closed: a
// connection keeps settings, the database, and after a failed query even the
// former query's output.
type session struct {
	lib    *library
	handle unsafe.Pointer
	conn   unsafe.Pointer
}

// session connects, chooses the database ("" is the default one) and applies settings.
func (e *engine) session(database string, settings map[string]string) (*session, error) {
	handle, err := e.lib.open("--path=" + e.path)
	if err != nil {
		return nil, err
	}
	s := &session{lib: e.lib, handle: handle, conn: *(*unsafe.Pointer)(handle)}
	if err := s.prepare(database, settings); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) prepare(database string, settings map[string]string) error {
	if database != "" {
		if _, err := s.query("USE "+quote(database, '`'), ""); err != nil {
			return err
		}
	}
	for name, value := range settings {
		if _, err := s.query("SET "+name+" = "+quote(value, '\''), ""); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) close() { s.lib.closeConn(s.handle) }

// query runs one statement and returns its whole answer.
func (s *session) query(sql, format string) ([]byte, error) {
	q, qn := chars(sql)
	f, fn := chars(format)
	return s.lib.take(s.lib.query(s.conn, q, qn, f, fn))
}

// stream runs one statement and gives its answer to emit block by block.
func (s *session) stream(ctx context.Context, sql, format string, emit func([]byte) error) error {
	q, qn := chars(sql)
	f, fn := chars(format)
	result := s.lib.streamQuery(s.conn, q, qn, f, fn)
	if result == nil {
		return newEngineError("")
	}
	defer s.lib.destroyResult(result)
	if text := s.lib.resultError(result); text != "" {
		return newEngineError(text)
	}
	for {
		block, err := s.lib.take(s.lib.streamFetch(s.conn, result))
		if err != nil || len(block) == 0 {
			return err
		}
		if err := errors.Join(ctx.Err(), emit(block)); err != nil {
			s.lib.streamCancel(s.conn, result)
			return err
		}
	}
}

// insertChunk bounds what one insert holds of its body, in bytes.
const insertChunk = 1 << 20

// insert feeds body to an INSERT statement without a FORMAT clause. A body that
// ends with an error cancels the statement.
func (s *session) insert(sql, format string, body io.Reader) error {
	q, qn := chars(sql)
	f, fn := chars(format)
	stream := s.lib.insert(s.conn, q, qn, f, fn)
	if stream == nil {
		return newEngineError("")
	}
	defer s.lib.destroyInsert(stream)
	if text := s.lib.insertError(stream); text != "" {
		return newEngineError(text)
	}
	if err := s.feed(stream, body); err != nil {
		s.lib.insertCancel(stream)
		return err
	}
	_, err := s.lib.take(s.lib.insertDone(stream))
	return err
}

func (s *session) feed(stream unsafe.Pointer, body io.Reader) error {
	chunk := make([]byte, insertChunk)
	for {
		n, err := fill(body, chunk)
		if n > 0 && s.lib.insertAppend(stream, &chunk[0], uintptr(n)) != 0 {
			return newEngineError(s.lib.insertError(stream))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill reads until chunk is full. Unlike io.ReadFull it keeps the end of a body
// (io.EOF) apart from a body that was cut off (io.ErrUnexpectedEOF).
func fill(body io.Reader, chunk []byte) (n int, err error) {
	for n < len(chunk) && err == nil {
		var m int
		m, err = body.Read(chunk[n:])
		n += m
	}
	return n, err
}

// quote writes s between q, escaped as ClickHouse reads strings and identifiers.
func quote(s string, q byte) string {
	escaped := strings.NewReplacer(`\`, `\\`, string(q), `\`+string(q)).Replace(s)
	return string(q) + escaped + string(q)
}
