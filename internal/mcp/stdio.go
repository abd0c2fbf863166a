package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve speaks with one client, over lines of in and out, until in or ctx ends. A line that is not a
// message is answered with an error: the library would end the session.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	return serve(ctx, in, out, newServer(o))
}

func serve(ctx context.Context, in io.Reader, out io.Writer, server *sdk.Server) error {
	w := &lines{to: out, owed: map[jsonrpc.ID]bool{}}
	messages, feed := io.Pipe()
	// It ends with in, or when a message can no longer be passed on. A read from a terminal or a pipe
	// cannot be interrupted: it ends with the process.
	go func() {
		err := forward(in, feed, w)
		w.settle(ctx) // the library answers nothing after the end of its input
		feed.CloseWithError(err)
	}()
	err := server.Run(ctx, &sdk.IOTransport{Reader: messages, Writer: w, MaxLineLength: maxMessage})
	switch {
	case w.failed() != nil:
		return fmt.Errorf("the client has gone: %w", w.failed())
	case ctx.Err() == nil && !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// forward passes on the lines of in that are messages, until in ends.
func forward(in io.Reader, to io.Writer, answers *lines) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 && err == nil {
			continue
		}
		var m jsonrpc.Message
		if err == nil {
			line, m, err = message(line)
		}
		if err != nil {
			if err := answers.refuse(err); err != nil {
				return err
			}
			continue
		}
		answers.expect(m)
		if _, err := to.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

var errTooLong = fmt.Errorf("the message is longer than %d bytes", maxMessage)

// readLine reads a line. Of one that is too long it returns errTooLong, and the rest is
// skipped. The last line may lack its end.
func readLine(r *bufio.Reader) (line []byte, err error) {
	length := 0
	for {
		part, err := r.ReadSlice('\n')
		length += len(part)
		if length <= maxMessage {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || length == 0):
			return nil, err
		case length > maxMessage:
			return nil, errTooLong
		}
		return line, nil
	}
}

// message checks that a line is one message, and returns it on one line.
func message(line []byte) ([]byte, jsonrpc.Message, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, line); err != nil {
		return nil, nil, parseError{err}
	}
	if line[0] != '{' {
		return nil, nil, errors.New("want one JSON-RPC message, an object; " +
			"batches are not part of the protocol any more")
	}
	m, err := jsonrpc.DecodeMessage(compact.Bytes())
	return compact.Bytes(), m, err
}

// parseError: a line is not JSON.
type parseError struct{ error }

// lines writes whole lines, from several goroutines.
type lines struct {
	mu  sync.Mutex
	to  io.Writer
	err error // the first of writing: the library ends the session then
	// owed has the ids of unanswered requests; settled signals that it is empty.
	owed    map[jsonrpc.ID]bool
	settled chan struct{}
}

// expect notes that a request has to be answered.
func (l *lines) expect(m jsonrpc.Message) {
	if req, ok := m.(*jsonrpc.Request); ok && req.IsCall() {
		l.mu.Lock()
		l.owed[req.ID] = true
		l.mu.Unlock()
	}
}

// lastAnswers is how long the client, after the end of its input, waits for answers.
const lastAnswers = 5 * time.Second

// settle waits until each request is answered, but not for long: those that the client has
// cancelled never are.
func (l *lines) settle(ctx context.Context) {
	l.mu.Lock()
	done := len(l.owed) == 0
	l.settled = make(chan struct{}, 1)
	l.mu.Unlock()
	if done {
		return
	}
	select {
	case <-l.settled:
	case <-time.After(lastAnswers):
	case <-ctx.Done():
	}
}

// Write writes the library's output: a whole line.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.to.Write(p)
	if m, wrong := jsonrpc.DecodeMessage(p); wrong == nil {
		if answer, ok := m.(*jsonrpc.Response); ok {
			delete(l.owed, answer.ID)
		}
		if len(l.owed) == 0 && l.settled != nil {
			select {
			case l.settled <- struct{}{}:
			default:
			}
		}
	}
	l.err = cmp.Or(l.err, err)
	return n, err
}

// Close does nothing: the output is not ours.
func (l *lines) Close() error { return nil }

// failed returns the first error of writing.
func (l *lines) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// refuse answers a line that is not a message, and hence has no id.
func (l *lines) refuse(err error) error {
	type problem struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	p := problem{jsonrpc.CodeInvalidRequest, "invalid request: " + text(err.Error(), maxText)}
	if bad, ok := errors.AsType[parseError](err); ok {
		p.Code = jsonrpc.CodeParseError
		p.Message = "parse error: " + text(bad.Error(), maxText) + "; want one JSON message on each line"
	}
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": p})
	if err != nil {
		return err
	}
	_, err = l.Write(append(data, '\n'))
	return err
}
