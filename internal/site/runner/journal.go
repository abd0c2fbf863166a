package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
)

// journalName is the journal in a data directory: one JSON object a line, each written and
// synced before its call is answered. The lines with the event created or message are exactly
// the accepted instructions.
const journalName = "jobs.ndjson"

// Kinds of events.
const (
	eventCreated   = "created"   // create was accepted: project, prompt, title, source, model
	eventMessage   = "message"   // a message was accepted: prompt
	eventStarted   = "started"   // work on the next instruction began, or began again: model
	eventWorked    = "worked"    // the work that began has lasted longWork
	eventCommitted = "committed" // the editor is done: change, report
	eventPostponed = "postponed" // the instruction is tried again later: until, failure, output, report
	// The instruction is over: status, link, failure, output, and the report unless that was committed.
	eventEnded    = "ended"
	eventArchived = "archived" // the job was archived by age
)

// event is one line of the journal.
type event struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"event"`
	Job     string    `json:"job"`
	Project string    `json:"project,omitempty"`
	Prompt  string    `json:"prompt,omitempty"`
	Title   string    `json:"title,omitempty"`
	Source  *Source   `json:"source,omitempty"`
	Model   string    `json:"model,omitempty"`
	Change  *Change   `json:"change,omitempty"`
	Status  Status    `json:"status,omitempty"`
	Link    string    `json:"link,omitempty"`
	Failure string    `json:"failure,omitempty"`
	Output  string    `json:"output,omitempty"`
	Report  *Report   `json:"report,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// journal is the file of events, locked while it is open.
type journal struct {
	file *os.File
	size int64 // of the complete lines
}

// openJournal opens the journal in dir and passes its events to replay, in order. A last line
// without its end was never answered and is cut off.
func openJournal(dir string, replay func(event) error) (*journal, error) {
	path := filepath.Join(dir, journalName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("agent journal: %w", err)
	}
	j := &journal{file: file}
	// Without the lock the end of the file belongs to another process and must not be cut.
	if err = lock(file, durable.LockPatience); err != nil {
		err = fmt.Errorf(": %w", err)
	} else if err = errors.Join(j.read(replay), j.cut()); err != nil {
		err = fmt.Errorf("%w; put it back from a backup, or move it away: then its jobs are forgotten", err)
	} else {
		err = durable.SyncDir(dir) // it may be new
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("agent journal %s%w", path, err), file.Close())
	}
	return j, nil
}

// Recorded is a job as its journal has it, with the report of its last instruction.
type Recorded struct {
	Job
	Project string   `json:"project"`
	Prompts []string `json:"prompts"`
	Branch  string   `json:"branch,omitempty"`
	Failure string   `json:"failure,omitempty"`
	Output  string   `json:"output,omitempty"`
	Report  *Report  `json:"report,omitempty"`
}

// ReadJobs returns the jobs of a data directory in the order of their creation, also beside the process that works on
// them, and changes nothing.
func ReadJobs(dir string) (all []Recorded, err error) {
	file, err := os.Open(filepath.Join(dir, journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("agent journal: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	q, reports := &Queue{jobs: map[string]*Job{}}, map[string]*Report{}
	err = (&journal{file: file}).read(func(e event) error {
		if e.Kind == eventStarted || e.Report != nil {
			reports[e.Job] = e.Report
		}
		return q.apply(e)
	})
	if err != nil {
		return nil, fmt.Errorf("agent journal %s%w", file.Name(), err)
	}
	for _, j := range q.order {
		all = append(all, Recorded{Job: j.shown(), Project: j.Project, Prompts: j.Prompts, Branch: j.last.Branch,
			Failure: j.Failure, Output: j.Output, Report: reports[j.ID]})
	}
	return all, nil
}

// read passes the events of the complete lines to replay.
func (j *journal) read(replay func(event) error) error {
	lines := bufio.NewReader(j.file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf(": %w", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf(":%d: line: want an event as JSON: %w", n, err)
		}
		if err := replay(e); err != nil {
			return fmt.Errorf(":%d: %w", n, err)
		}
		j.size += int64(len(line))
	}
}

// append writes e after the complete lines. After an error e is not in the journal, or the
// journal accepts nothing more.
func (j *journal) append(e event) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(e)
	if err == nil {
		_, err = j.file.WriteAt(line.Bytes(), j.size)
	}
	if err == nil && e.Kind != eventStarted { // no client learned that work began
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("agent journal: %w", errors.Join(err, j.cut()))
	}
	j.size += int64(line.Len())
	return nil
}

// cut removes everything after the complete lines.
func (j *journal) cut() error {
	if err := j.file.Truncate(j.size); err != nil {
		return errors.Join(err, j.file.Close())
	}
	return nil
}

// errLocked: another process works on the same data directory.
var errLocked = errors.New("another process works on it; want a data directory for each")

// lock locks file until it is closed, or returns errLocked after the time of patience.
func lock(file *os.File, patience time.Duration) error {
	held, err := durable.Lock(file, patience)
	if err == nil && !held {
		err = errLocked
	}
	return err
}
