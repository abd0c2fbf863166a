package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// EventLogName is the event log in Config.DataDir: one JSON object a line, with
// time (RFC 3339), visitor, kind (human or ai), path, and optionally project,
// which is the first project where it is absent. It is served instead of
// synthetic traffic as long as it exists.
const EventLogName = "events.ndjson"

// eventLog follows the event log: each read first takes in what changed. Lines
// appended to the file are read on their own; any other change reads all again.
type eventLog struct {
	path     string
	projects []string
	lateDays int

	mu      sync.Mutex
	info    os.FileInfo // of the last reading; nil without a file
	content *logContent
	reading uint64
	err     error
}

func openEventLog(c Config) (*eventLog, error) {
	info, err := os.Stat(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("data directory %s: is a file; want a directory that may hold %s", c.DataDir, EventLogName)
	}
	l := &eventLog{path: filepath.Join(c.DataDir, EventLogName), projects: c.Projects, lateDays: c.Faults.LateDays}
	_, _, err = l.read(c.Projects[0])
	return l, err
}

// read returns the events of project as the file holds them now, nil without a
// file, and the number of the reading. An error stays until the file changes.
func (l *eventLog) read(project string) (*logTraffic, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, 0, fmt.Errorf("event log %w", err)
	}
	if l.content == nil {
		return nil, l.reading, nil
	}
	t := *l.content.projects[project]
	return &t, l.reading, nil
}

func (l *eventLog) refresh() error {
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.info, l.content, l.err = nil, nil, nil
		return nil
	}
	if err != nil {
		return err
	}
	if l.info != nil && os.SameFile(l.info, info) && info.Size() == l.info.Size() && info.ModTime().Equal(l.info.ModTime()) {
		return l.err
	}
	return l.take()
}

// take reads the file, from where the last reading ended if that is still what
// lies before it.
func (l *eventLog) take() error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	before := l.info
	if l.info, err = f.Stat(); err != nil {
		return err
	}
	appended := l.content != nil && os.SameFile(before, l.info) && l.content.endsIn(f)
	if !appended {
		l.content = newLogContent(l.projects, l.lateDays)
	}
	if _, err := f.Seek(l.content.size, io.SeekStart); err != nil {
		return err
	}
	l.reading++
	l.err = l.content.append(f, l.path)
	return l.err
}

// tailSize is how much of what was read is compared to tell appending from rewriting.
const tailSize = 1024

// endsIn reports whether f still has, where c ends, what c ended with.
func (c *logContent) endsIn(f io.ReaderAt) bool {
	now := make([]byte, len(c.tail))
	_, err := f.ReadAt(now, c.size-int64(len(c.tail)))
	return (err == nil || len(now) == 0) && bytes.Equal(now, c.tail)
}
