package engines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// devtools speaks the DevTools protocol over a browser's two pipes: JSON
// objects, a zero byte after each. Any number of calls run at once.
type devtools struct {
	mu      sync.Mutex // also keeps commands whole
	to      io.WriteCloser
	last    int
	calls   map[int]chan message
	events  map[string]func(message) // by session
	closed  chan struct{}
	closing error // why; set before closed is closed
}

// message is a command, an answer to the command of its ID, or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

func newDevtools(to io.WriteCloser, from io.ReadCloser) *devtools {
	d := &devtools{to: to, calls: map[int]chan message{}, events: map[string]func(message){}, closed: make(chan struct{})}
	go d.read(from)
	return d
}

// read hands out what the browser says until it ends.
func (d *devtools) read(from io.ReadCloser) {
	defer from.Close()
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err == nil {
			err = d.take(text[:len(text)-1])
		}
		if err != nil {
			d.closing = fmt.Errorf("chromium has ended: %w", err)
			close(d.closed)
			d.to.Close()
			return
		}
	}
}

func (d *devtools) take(text []byte) error {
	var params json.RawMessage
	m := message{Params: &params}
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	d.mu.Lock()
	call, event := d.calls[m.ID], d.events[m.SessionID]
	delete(d.calls, m.ID)
	d.mu.Unlock()
	switch {
	case call != nil:
		call <- m
	case m.Method != "" && event != nil:
		m.Result = params
		event(m)
	}
	return nil
}

// listen calls event, in order, with each event of a session; its parameters
// are in Result.
func (d *devtools) listen(session string, event func(message)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events[session] = event
}

// call sends a command to a session, or to the browser where that is empty, and
// decodes the answer into result unless that is nil.
func (d *devtools) call(ctx context.Context, session, method string, params, result any) error {
	answer, err := d.send(message{SessionID: session, Method: method, Params: params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-d.closed:
		return fmt.Errorf("%s: %w", method, d.closing)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func (d *devtools) send(m message) (<-chan message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	m.ID = d.last
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	answer := make(chan message, 1) // nobody may be left to take it
	d.calls[m.ID] = answer
	if _, err := d.to.Write(append(text, 0)); err != nil {
		return nil, errors.Join(err, d.ended())
	}
	return answer, nil
}

// ended is why the browser is gone, or nil while it is there.
func (d *devtools) ended() error {
	if ended(d.closed) {
		return d.closing
	}
	return nil
}
