//go:build linux

package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library holds the functions of libchdb that the adapter calls. Handles are
// pointers of the library: they are passed back to it and never followed here,
// but for the connection (see open).
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
	for name, fn := range l.symbols() {
		if _, err := purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("load %s: %w", path, err)
		}
		purego.RegisterLibFunc(fn, handle, name)
	}
	return l, nil
}

func (l *library) symbols() map[string]any {
	return map[string]any{
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
	}
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
		return nil, &engineError{Code: 210, Text: "Code: 210. DB::NetException: the engine refused a connection. (NETWORK_ERROR)"}
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
