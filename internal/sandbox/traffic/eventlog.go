package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// EventLogName is the file name of the event log: lines as [logs.ParseEvent] reads them, of the
// first project unless they name one. It is served instead of synthetic traffic as long as it
// exists.
const EventLogName = "events.ndjson"

const (
	// maxLine limits one line of the event log, in bytes.
	maxLine = 1 << 20
	// tailSize is the number of the last bytes to compare, to tell appending from rewriting.
	tailSize = 1024
)

// EventLog follows the event log: each Read first reads changes of the file. Lines
// appended to the file are read on their own; any other change reads all again.
type EventLog struct {
	path     string
	projects []string
	lateDays int

	mu      sync.Mutex
	info    os.FileInfo // of the last reading; nil without a file
	content *logContent
	reading uint64
	err     error
}

// OpenEventLog returns the event log in dir, which it makes; the log need not exist. Lines belong to the first project
// unless they name another one. One event in twenty arrives late, by at most lateDays.
func OpenEventLog(dir string, projects []string, lateDays int) (*EventLog, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	l := &EventLog{path: filepath.Join(dir, EventLogName), projects: projects, lateDays: lateDays}
	_, _, err := l.Read(projects[0])
	return l, err
}

// Read returns the events of project as the file holds them now, nil without a
// file, and the number of the reading. An error stays until the file changes.
func (l *EventLog) Read(project string) (t Traffic, reading uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, 0, fmt.Errorf("event log %w", err)
	}
	if l.content == nil {
		return nil, l.reading, nil
	}
	view := *l.content.projects[project]
	return &view, l.reading, nil
}

// refresh reads the file if it has changed, from the end of the last reading if the
// file still has the same before it.
func (l *EventLog) refresh() error {
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.info, l.content, l.err = nil, nil, nil
		return nil
	}
	if err != nil {
		return err
	}
	if l.info != nil && os.SameFile(l.info, info) && info.Size() == l.info.Size() &&
		info.ModTime().Equal(l.info.ModTime()) {
		return l.err
	}
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	before := l.info
	if l.info, err = f.Stat(); err != nil {
		return err
	}
	if l.content == nil || !os.SameFile(before, l.info) || !l.content.isPrefixOf(f) {
		l.content = newLogContent(l.projects, l.lateDays)
	}
	if _, err := f.Seek(l.content.size, io.SeekStart); err != nil {
		return err
	}
	l.reading++
	l.err = l.content.append(f, l.path)
	return l.err
}

// logContent is the part of the event log that was read.
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
		c.projects[p] = &logTraffic{
			days: map[analytics.Date][]event{}, pageNumber: map[string]uint32{}, visitorNumber: map[string]uint32{},
			agentNumber: map[string]uint16{},
		}
	}
	return c
}

// isPrefixOf reports whether f still has the last bytes of c at the same place.
func (c *logContent) isPrefixOf(f io.ReaderAt) bool {
	now := make([]byte, len(c.tail))
	_, err := f.ReadAt(now, c.size-int64(len(c.tail)))
	return (err == nil || len(now) == 0) && bytes.Equal(now, c.tail)
}

// append reads lines from r to its end. A last line that is not finished yet is
// left for the next reading, and so is a line with an error, which names file,
// line and rule.
func (c *logContent) append(r io.Reader, name string) error {
	for _, t := range c.projects {
		t.days = maps.Clone(t.days) // the former map belongs to the views of earlier readings
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
		c.size += int64(len(line))
		c.lines += bytes.Count(line, []byte{'\n'})
		c.tail = append(c.tail, line...)
		if n := len(c.tail); n > 2*tailSize {
			c.tail = append(c.tail[:0], c.tail[n-tailSize:]...)
		}
	}
	return nil
}

func (c *logContent) add(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	e, at, err := logs.ParseEvent(line)
	if err != nil {
		return err
	}
	if e.Project == "" {
		e.Project = c.fallback
	}
	if a := agents.Builtin().Match(e.Agent); e.Agent != "" && (a == nil || a.Class == agents.Unknown) {
		return fmt.Errorf("agent %.140q: is not in the table of docgauge site agents", e.Agent)
	}
	if e.Bytes != nil && *e.Bytes > math.MaxInt32 {
		return fmt.Errorf("bytes %d: want at most %d in a sandbox", *e.Bytes, math.MaxInt32)
	}
	t, ok := c.projects[e.Project]
	if !ok {
		return fmt.Errorf("project %.140q: is not served; want one of the sandbox's projects, or no project", e.Project)
	}
	t.add(e, at, c.lateDays)
	return nil
}

// luck distributes the events of a log evenly, the same way on every reading.
func luck(e logs.Event) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s", e.Time, e.Visitor, e.Kind, e.Path)
	return h.Sum32()
}

// logTraffic is the events of one project in the event log. A copy is an
// immutable view: later events are appended beyond its lengths, and days is
// replaced before it changes.
type logTraffic struct {
	days       map[analytics.Date][]event
	first, end analytics.Date
	pages      []string
	people     int

	named []agents.Agent

	pageNumber, visitorNumber map[string]uint32
	agentNumber               map[string]uint16
}

func (t *logTraffic) Bounds() (first, end analytics.Date) { return t.first, t.end }
func (t *logTraffic) day(d analytics.Date) []event        { return t.days[d] }
func (t *logTraffic) Paths() []string                     { return t.pages }
func (t *logTraffic) visitors() int                       { return t.people }
func (t *logTraffic) agents() []agents.Agent              { return t.named }
func (t *logTraffic) beside(analytics.Date) []event       { return nil }
func (t *logTraffic) missing() []string                   { return nil }

func (t *logTraffic) add(e logs.Event, at time.Time, lateDays int) {
	page, known := t.pageNumber[e.Path]
	if !known {
		page = uint32(len(t.pages))
		t.pageNumber[e.Path] = page
		t.pages = append(t.pages, e.Path)
	}
	visitor, known := t.visitorNumber[e.Visitor]
	if !known {
		visitor = uint32(t.people)
		t.visitorNumber[e.Visitor] = visitor
		t.people++
	}
	agent := uint16(0)
	if e.Agent != "" {
		a := agents.Builtin().Match(e.Agent)
		if agent = t.agentNumber[a.Token]; agent == 0 {
			t.named = append(t.named, *a)
			agent = uint16(len(t.named))
			t.agentNumber[a.Token] = agent
		}
	}
	who := visitor << 1
	if e.Kind == "ai" {
		who |= ai
	}
	d := analytics.DateOf(at)
	if len(t.days) == 0 {
		t.first, t.end = d, d+1
	}
	t.first, t.end = min(t.first, d), max(t.end, d+1)
	second := uint32(at.Unix() - d.Time().Unix())
	event := event{who: who, page: page, second: second, arrival: arrival(second, luck(e), lateDays), agent: agent,
		bytes: facts.Unsaid}
	if e.Bytes != nil {
		event.bytes = int32(*e.Bytes)
	}
	if e.Kind == "human" {
		event.source = sourceNumber(e.Referrer, e.Path)
	}
	if e.Evidence {
		event.flags |= evidence
	}
	if e.Markdown {
		event.flags |= markdown
	}
	t.days[d] = append(t.days[d], event)
}
