package logs

import (
	"io"
	"sync"
	"time"
)

const (
	// stdinWait is how long a poll waits for more of standard input.
	stdinWait = 100 * time.Millisecond
	// stdinChunks is how many chunks a poll takes at most: a stream may never end.
	stdinChunks = 1024
)

// stdin is standard input. A goroutine reads it, which ends with the input or, if nothing comes, with the process.
type stdin struct {
	source int
	chunks chan Lines
	err    error // once chunks is closed
	done   chan struct{}
	stop   func()
}

func newStdin(source int, in io.Reader) *stdin {
	s := &stdin{source: source, chunks: make(chan Lines), done: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.done) })
	go func() {
		defer close(s.chunks)
		text, err := Decompress(in)
		if err == nil {
			err = ReadLines(text, Part{First: 1, Stream: true}, func(c Lines) error {
				select {
				case s.chunks <- c:
					return nil
				case <-s.done:
					return io.ErrClosedPipe
				}
			})
		}
		s.err = err
	}()
	return s
}

// poll gives what has come.
func (s *stdin) poll(p *poll) error {
	for range stdinChunks {
		select {
		case c, ok := <-s.chunks:
			if !ok {
				return s.err
			}
			chunk := Chunk{Source: s.source, Name: "standard input", Lines: c}
			if p.stopped = p.each(chunk); p.stopped != nil {
				return errStopped
			}
		case <-time.After(stdinWait):
			return nil
		case <-p.ctx.Done():
			return nil
		}
	}
	return nil
}
