package count

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/docgauge/docgauge/internal/site/logs"
)

// readLog is what was read of a log.
type readLog struct {
	lines, unparsed int
	bad             *BadLine // the first
	err             error
}

// chunk is a part of a log.
type chunk struct {
	log int
	logs.Lines
}

// readAll reads the logs, and returns their files. As many are read at once as there are viewers, which parse and count
// the chunks of all. The error is the one of the first log that has one.
func (c *counting) readAll(ctx context.Context, names []string) (paths []string, err error) {
	paths, err = filesOf(names)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for i, path := range paths {
		if named[path] {
			return nil, fmt.Errorf("%s: is named twice; its lines would count twice", path)
		}
		named[path] = true
		c.repeats.log(i, path, path)
	}
	c.logs = make([]readLog, len(paths))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, failed atomic.Int64 // the next log, and the first one that has failed
	failed.Store(int64(len(paths)))
	chunks := make(chan chunk)
	var readers, viewers sync.WaitGroup
	for range min(len(paths), len(c.viewers)) {
		readers.Go(func() {
			var d logs.Decompressor
			for i := next.Add(1) - 1; i < failed.Load(); i = next.Add(1) - 1 {
				err := c.read(paths[i], &d, func(lines logs.Lines) error {
					if i > failed.Load() {
						return errStopped
					}
					select {
					case chunks <- chunk{int(i), lines}:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
				c.logs[i].err = err
				for first := failed.Load(); err != nil && i < first; first = failed.Load() {
					failed.CompareAndSwap(first, i)
				}
			}
		})
	}
	for _, v := range c.viewers {
		if len(paths) > 1 {
			v.Repeats = c.repeats
		}
		viewers.Go(func() {
			p := c.Parser()
			for part := range chunks {
				b := v.Batch(p, part.Lines)
				part.Free()
				if err := c.add(ctx, part.log, &b); err != nil {
					stop(err)
				}
				b.Free()
			}
		})
	}
	readers.Wait()
	close(chunks)
	viewers.Wait()
	for i, log := range c.logs {
		if log.err != nil {
			return nil, fmt.Errorf("%s: %w", paths[i], log.err)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return paths, c.sum(paths)
}

// errStopped is the error of a log after one that has failed.
var errStopped = errors.New("a log before it has failed")

// sum adds up the logs. It counts nothing of a log in no known format.
func (c *counting) sum(paths []string) error {
	for i, log := range c.logs {
		if log.lines > 0 && log.lines == log.unparsed {
			c.unknown = append(c.unknown, paths[i])
			continue
		}
		c.lines += log.lines
		if log.unparsed > 0 {
			c.leftOut[Unparsed] += log.unparsed
		}
		if c.bad == nil && log.bad != nil {
			c.bad = log.bad
			c.bad.Source = paths[i]
		}
	}
	if len(c.unknown) > 0 && len(c.unknown) == len(paths) {
		return fmt.Errorf("%s: %w", c.unknown[0], c.Rules.unknown(c.tally))
	}
	return nil
}

// read reads the chunks of a log.
func (c *counting) read(path string, d *logs.Decompressor, each func(logs.Lines) error) error {
	in, err := open(path, c.Stdin)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	text, err := d.Open(in)
	if err != nil {
		return err
	}
	return logs.ReadLines(text, logs.Part{First: 1}, each)
}

// add counts the lines of a batch of a log, and its views or where they are kept.
func (c *counting) add(ctx context.Context, log int, b *Batch) error {
	if ctx.Err() != nil {
		return nil
	}
	if c.kept == nil {
		c.count(b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from := &c.logs[log]
	from.lines += b.Lines
	for why, n := range b.LeftOut {
		if why == Unparsed {
			from.unparsed += n
		} else {
			c.leftOut[why] += n
		}
	}
	if b.Bad != nil && (from.bad == nil || b.Bad.Line < from.bad.Line) {
		from.bad = b.Bad
	}
	c.newest = max(c.newest, b.Newest)
	c.tally.Add(b.Tally)
	c.repeats.add(int32(log), b)
	for _, n := range b.asked {
		if n.view.Project == c.project && c.kept == nil {
			c.asked[n.view.Readers] = askedReader{n.view.Agent, n.html || c.asked[n.view.Readers].html}
		}
	}
	if c.kept == nil {
		return nil
	}
	for i := range b.Views {
		c.from, c.to = min(c.from, b.Views[i].Day), max(c.to, b.Views[i].Day+1)
	}
	c.views += len(b.Views)
	return c.kept.add(ctx, b)
}

// filesOf returns the files that are named, and the files of directories that are.
func filesOf(names []string) (paths []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.IsDir() { // open says what is wrong
			paths = append(paths, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		before := len(paths)
		for _, entry := range entries {
			path := filepath.Join(name, entry.Name())
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && entry.Name()[0] != '.' {
				paths = append(paths, path)
			}
		}
		if len(paths) == before {
			return nil, fmt.Errorf("%s: is a directory without a file: name the logs", name)
		}
	}
	return paths, nil
}

// open opens a log.
func open(path string, stdin io.Reader) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(stdin), nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		if _, err := filepath.EvalSymlinks(path); err == nil { // a shell's <(…) leads to no path
			return nil, errors.New("is a named pipe, which may never end; pipe the lines to -")
		}
	}
	f, err := os.Open(path)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err // the caller names the path
		}
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, errors.Join(cmp.Or(err, errors.New("is a directory; name the logs in it")), f.Close())
	}
	return f, nil
}
