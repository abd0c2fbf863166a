package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// maxLine bounds one line of the event log, in bytes.
	maxLine = 1 << 20
	// maxPath bounds a page path, in bytes.
	maxPath = 2048
)

// logContent is what was read of the event log.
type logContent struct {
	projects map[string]*logTraffic
	fallback string // project of a line that names none
	lateDays int
	size     int64  // bytes read
	lines    int    // lines read
	tail     []byte // the last bytes read, at least tailSize of them
}

func newLogContent(projects []string, lateDays int) *logContent {
	c := &logContent{projects: map[string]*logTraffic{}, fallback: projects[0], lateDays: lateDays}
	for _, p := range projects {
		c.projects[p] = newLogTraffic()
	}
	return c
}

// append reads lines from r to its end. A last line that is not finished yet is
// left for the next reading, and so is a line with an error, which names file,
// line and rule.
func (c *logContent) append(r io.Reader, name string) error {
	for _, t := range c.projects {
		t.unshare()
	}
	lines := bufio.NewReaderSize(r, maxLine)
	for atEnd := false; !atEnd; {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("%s:%d: line: want at most %d bytes", name, c.lines+1, maxLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		problem := c.add(line)
		atEnd = err != nil
		if atEnd && errors.Is(problem, io.ErrUnexpectedEOF) {
			return nil //nolint:nilerr // the half line is read again when it has grown
		}
		if problem != nil {
			return fmt.Errorf("%s:%d: %w", name, c.lines+1, problem)
		}
		c.consumed(line)
	}
	return nil
}

func (c *logContent) consumed(line []byte) {
	c.size += int64(len(line))
	c.lines += bytes.Count(line, []byte{'\n'})
	c.tail = append(c.tail, line...)
	if n := len(c.tail); n > 2*tailSize {
		c.tail = append(c.tail[:0], c.tail[n-tailSize:]...)
	}
}

func (c *logContent) add(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	e, at, err := parseLine(line)
	if err != nil {
		return err
	}
	if e.Project == "" {
		e.Project = c.fallback
	}
	t, ok := c.projects[e.Project]
	if !ok {
		return fmt.Errorf("project %.140q: is not served; want one of the sandbox's projects, or no project", e.Project)
	}
	t.add(e, at, c.lateDays)
	return nil
}

// logLine is one line of the event log.
type logLine struct {
	Time    string `json:"time"`
	Visitor string `json:"visitor"`
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Project string `json:"project"`
}

func parseLine(line []byte) (e logLine, at time.Time, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, at, fmt.Errorf("line: want one JSON object with time, visitor, kind, path and optionally project: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, at, errors.New("line: want one JSON object a line, found more after it")
	}
	if at, err = time.Parse(time.RFC3339, e.Time); err != nil {
		return e, at, fmt.Errorf("time %.40q: want RFC 3339 with a zone, such as 2026-10-01T12:00:00Z", e.Time)
	}
	switch {
	case e.Visitor == "":
		return e, at, errors.New("visitor: is missing or empty")
	case e.Kind != "human" && e.Kind != "ai":
		return e, at, fmt.Errorf("kind %.40q: want human or ai", e.Kind)
	case !strings.HasPrefix(e.Path, "/") || len(e.Path) > maxPath:
		return e, at, fmt.Errorf("path %.40q: want / at the beginning and at most %d bytes", e.Path, maxPath)
	}
	return e, at, nil
}
