//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library holds the functions of libchdb that the adapter calls. Pointers of the
// library are passed back to it and, except for the connection (see
// [engine.session]), never followed here.
type library struct {
	setSignalHandlers func(enabled int32)

	connect   func(argc int32, argv *unsafe.Pointer) unsafe.Pointer
	closeConn func(conn unsafe.Pointer)

	query        func(conn unsafe.Pointer, sql *byte, n uintptr, format *byte, fn uintptr) unsafe.Pointer
	streamQuery  func(conn unsafe.Pointer, sql *byte, n uintptr, format *byte, fn uintptr) unsafe.Pointer
	streamFetch  func(conn, result unsafe.Pointer) unsafe.Pointer
	streamCancel func(conn, result unsafe.Pointer)

	resultBuffer  func(result unsafe.Pointer) unsafe.Pointer
	resultLength  func(result unsafe.Pointer) uintptr
	resultError   func(result unsafe.Pointer) string
	destroyResult func(result unsafe.Pointer)

	insert        func(conn unsafe.Pointer, sql *byte, n uintptr, format *byte, fn uintptr) unsafe.Pointer
	insertAppend  func(stream unsafe.Pointer, data *byte, n uintptr) int32
	insertDone    func(stream unsafe.Pointer) unsafe.Pointer
	insertCancel  func(stream unsafe.Pointer)
	insertError   func(stream unsafe.Pointer) string
	destroyInsert func(stream unsafe.Pointer)
}

// load opens the shared library at path and finds its functions.
func load(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	l := new(library)
	for name, fn := range map[string]any{
		"chdb_set_signal_handlers_enabled": &l.setSignalHandlers,
		"chdb_connect":                     &l.connect,
		"chdb_close_conn":                  &l.closeConn,
		"chdb_query_n":                     &l.query,
		"chdb_stream_query_n":              &l.streamQuery,
		"chdb_stream_fetch_result":         &l.streamFetch,
		"chdb_stream_cancel_query":         &l.streamCancel,
		"chdb_result_buffer":               &l.resultBuffer,
		"chdb_result_length":               &l.resultLength,
		"chdb_result_error":                &l.resultError,
		"chdb_destroy_query_result":        &l.destroyResult,
		"chdb_stream_insert_n":             &l.insert,
		"chdb_stream_append":               &l.insertAppend,
		"chdb_stream_done":                 &l.insertDone,
		"chdb_stream_cancel_insert":        &l.insertCancel,
		"chdb_stream_insert_error":         &l.insertError,
		"chdb_destroy_insert_stream":       &l.destroyInsert,
	} {
		if _, err := purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("load %s: %w", path, err)
		}
		purego.RegisterLibFunc(fn, handle, name)
	}
	return l, nil
}

// open connects with the arguments of a command line, without the program's name.
func (l *library) open(args ...string) (unsafe.Pointer, error) {
	words := append([]string{"clickhouse"}, args...)
	argv := make([]unsafe.Pointer, len(words))
	for i, w := range words {
		argv[i] = unsafe.Pointer(unsafe.SliceData(append([]byte(w), 0)))
	}
	conn := l.connect(int32(len(argv)), unsafe.SliceData(argv))
	runtime.KeepAlive(argv)
	if conn == nil {
		return nil, exception(210, "the engine refused a connection", "NETWORK_ERROR")
	}
	return conn, nil
}

// take copies the data of a result, or returns its error, and frees it.
func (l *library) take(result unsafe.Pointer) ([]byte, error) {
	if result == nil {
		return nil, newEngineError("")
	}
	defer l.destroyResult(result)
	if text := l.resultError(result); text != "" {
		return nil, newEngineError(text)
	}
	n := l.resultLength(result)
	if n == 0 {
		return nil, nil
	}
	data := make([]byte, n)
	copy(data, unsafe.Slice((*byte)(l.resultBuffer(result)), n))
	return data, nil
}

// chars returns the address and the length of s as the library wants them.
func chars(s string) (*byte, uintptr) { return unsafe.StringData(s), uintptr(len(s)) }

// engine is the library with its storage open. Its first connection stays open:
// the engine would stop with its last connection.
type engine struct {
	lib  *library
	path string
}

// session is one connection of the engine, used for one request and closed: a
// connection keeps settings, the database, and after a failed query even the
// output of the query before.
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
	if database != "" {
		_, err = s.query("USE "+quote(database, '`'), "")
	}
	for name, value := range settings {
		if err == nil {
			_, err = s.query("SET "+name+" = "+quote(value, '\''), "")
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) close() { s.lib.closeConn(s.handle) }

// query runs one statement and returns its whole answer.
func (s *session) query(sql, format string) ([]byte, error) {
	q, qn := chars(sql)
	f, fn := chars(format)
	return s.lib.take(s.lib.query(s.conn, q, qn, f, fn))
}

// stream runs one statement and passes its answer to emit block by block.
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
	chunk := make([]byte, insertChunk)
	for {
		n, err := fill(body, chunk)
		if n > 0 && s.lib.insertAppend(stream, &chunk[0], uintptr(n)) != 0 {
			err = newEngineError(s.lib.insertError(stream))
		}
		if errors.Is(err, io.EOF) {
			_, err := s.lib.take(s.lib.insertDone(stream))
			return err
		}
		if err != nil {
			s.lib.insertCancel(stream)
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

// engineError is an exception of the engine: its code and its text as a server
// sends it, "Code: N. DB::Exception: …".
type engineError struct {
	Code int
	Text string
}

func (e *engineError) Error() string { return e.Text }

var codePrefix = regexp.MustCompile(`Code: (\d+)\.`)

// newEngineError reads the code out of text; an error without one has the code
// of an unknown exception.
func newEngineError(text string) *engineError {
	m := codePrefix.FindStringSubmatchIndex(text)
	if m == nil {
		return exception(1002, text, "UNKNOWN_EXCEPTION")
	}
	code, _ := strconv.Atoi(text[m[2]:m[3]])
	return &engineError{Code: code, Text: text[m[0]:]}
}

// exception returns an error of the adapter in the form of the engine's.
func exception(code int, text, name string) *engineError {
	return &engineError{code, fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, text, name)}
}

// status is the HTTP status a ClickHouse server gives to the common codes.
func (e *engineError) status() int {
	switch e.Code {
	case 516, 192, 193:
		return http.StatusForbidden
	case 62, 6, 27, 33, 36, 53, 117:
		return http.StatusBadRequest
	case 46, 47, 50, 56, 60, 73, 81, 115:
		return http.StatusNotFound
	case 48:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}
