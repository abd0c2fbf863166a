package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCrashAnywhere ends the journal of a few jobs after each line, and in the
// middle of each, and continues from there: nothing accepted is lost, nothing is
// done twice, nothing is proposed twice.
func TestCrashAnywhere(t *testing.T) {
	lines := strings.SplitAfter(aJournal(t), "\n")
	lines = lines[:len(lines)-1]
	for n := range len(lines) + 1 {
		t.Run(fmt.Sprint("after ", n, " lines"), func(t *testing.T) {
			goOn(t, strings.Join(lines[:n], ""))
			if n < len(lines) {
				goOn(t, strings.Join(lines[:n], "")+lines[n][:len(lines[n])/2])
			}
		})
	}
	if len(lines) < 15 {
		t.Errorf("%d lines only", len(lines))
	}
}

// aJournal returns a journal with every kind of event.
func aJournal(t *testing.T) (text string) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		now := noon
		s := open(t, Options{Dir: dir, Workers: 2, Editor: words{time.Minute}, ArchiveAfter: time.Hour,
			Now: func() time.Time { return now }})
		first := create(t, s, `one [report:{"cost":0.5,"tokens":7}]`)
		send(t, s, first, "two")
		second := create(t, s, "three [sandbox:fail]")
		create(t, s, "four [sandbox:archive]")
		create(t, s, "seven [sandbox:limit]")
		atRest(s)
		send(t, s, first, "five [sandbox:no-change]")
		send(t, s, first, "six")
		atRest(s)
		now = noon.Add(2 * time.Hour)
		if _, err := s.Get("p", second); err != nil {
			t.Error(err)
		}
		closeQueue(t, s)
	})
	text = journalText(t, dir)
	for _, kind := range []string{eventCreated, eventMessage, eventStarted, eventCommitted, eventPostponed, eventEnded,
		eventArchived} {
		if !strings.Contains(text, `"event":"`+kind+`"`) {
			t.Fatalf("no event %s in %s", kind, text)
		}
	}
	return text
}

func goOn(t *testing.T, text string) {
	dir, host := writeJournal(t, text), newHost()
	var records []Job
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{Dir: dir, Host: host, Editor: words{time.Minute}})
		records = atRest(s)
		closeQueue(t, s)
		s = open(t, Options{Dir: dir, Host: host})
		if diff := cmp.Diff(records, atRest(s), cmp.AllowUnexported(Job{}, total[float64]{}, total[int64]{})); diff != "" {
			t.Errorf("after one more start: %s", diff)
		}
		closeQueue(t, s)
	})
	if diff := cmp.Diff(accepted(t, text), prompts(records)); diff != "" {
		t.Error(diff)
	}
	for _, r := range records {
		checkEnded(t, r, text, host.last["docgauge/"+r.ID])
	}
}

func prompts(records []Job) map[string][]string {
	all := map[string][]string{}
	for _, r := range records {
		all[r.ID] = r.Prompts
	}
	return all
}

// accepted reads the prompts from a journal without the code under test.
func accepted(t *testing.T, text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			continue
		}
		var e map[string]any
		check(t, json.Unmarshal([]byte(line), &e))
		if e["event"] == "created" || e["event"] == "message" {
			id := e["job"].(string)
			all[id] = append(all[id], e["prompt"].(string))
		}
	}
	return all
}

func checkEnded(t *testing.T, r Job, before string, shown Change) {
	t.Helper()
	last, edits := r.Prompts[len(r.Prompts)-1], []string{}
	for _, p := range r.Prompts {
		if !strings.Contains(p, "[sandbox:") {
			edits = append(edits, p)
		}
	}
	want := Completed
	switch {
	case strings.Contains(before, `"event":"archived","job":"`+r.ID) || strings.Contains(last, "archive"):
		want = Archived
	case strings.Contains(last, "fail"), strings.Contains(last, "limit"):
		want = Failed
	}
	if r.Status != want || r.Worked != len(r.Prompts) || (link(r) != "") != (len(edits) > 0) {
		t.Errorf("want %s, got %+v", want, r)
	}
	// The new host does not know the proposals from before the crash.
	if shown.Branch != "" && !cmp.Equal(edits, shown.Messages) {
		t.Errorf("proposed %v, want %v", shown.Messages, edits)
	}
}

// createdLine is a line of the journal that creates the job a.
func createdLine(prompt string) string {
	return `{"at":"2026-10-14T12:00:30Z","event":"created","job":"a","project":"p","prompt":"` + prompt +
		`","source":{"repository":"r","ref":"m"}}` + "\n"
}

func TestJournalsThatAreWrong(t *testing.T) {
	good := createdLine("x")
	for text, want := range map[string]string{
		"{}\n":           ":1: job",
		good + "x\n":     ":2: line",
		good + good:      ":2: job \"a\": want it created once",
		good + "\n":      ":2: line",
		good + "null\n":  ":2: job \"\"",
		good + "[1]\n\n": ":2: line",
		good + `{"event":"message","job":"b","prompt":"x"}` +
			"\n": ":2: job \"b\": has an event before",
		good + `{"event":"committed","job":"a"}` +
			"\n": ":2: job \"a\": event " +
			"committed lacks",
		good + `{"event":"moved","job":"a"}` +
			"\n": ":2: event \"moved\": " +
			"unknown",
		good + `{"event":"ended","job":"a","status":"failed"}` + "\n" +
			`{"event":"ended","job":"a","status":"failed"}` + "\n": ":3: job \"a\": ended more often",
	} {
		s, err := Open(config(Options{Dir: writeJournal(t, text)}))
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), journalName+want) || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOneProcessForADirectory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	if text := journalText(t, dir); text != "" {
		t.Errorf("written before the first job: %s", text)
	}
	create(t, s, "x [sandbox:slow]")
	untilStarted(t, dir)
	// The first is in the middle of a line.
	if err := os.WriteFile(filepath.Join(dir, journalName), []byte(journalText(t, dir)+`{"at":`), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // it waits a moment
		if _, err := Open(config(Options{Dir: dir})); !errors.Is(err, errLocked) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("second: %v", err)
		}
	})
	if text := journalText(t, dir); !strings.HasSuffix(text, `{"at":`) {
		t.Errorf("the second cut what the first was writing: %q", text)
	}
	closeQueue(t, s)
	closeQueue(t, open(t, Options{Dir: dir}))
}

// Where the journal takes nothing, nothing is accepted.
func TestJournalThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "here"), 0o700))
	s := open(t, Options{Dir: filepath.Join(dir, "here")})
	check(t, os.Remove(filepath.Join(dir, "here")))
	if _, err := s.Create("p", "x", ""); err == nil || len(s.All()) > 0 {
		t.Errorf("created %v: %v", s.All(), err)
	}
	check(t, os.Mkdir(filepath.Join(dir, "here"), 0o700))
	id := create(t, s, "x")
	s.journal.file.Close()
	if _, err := s.Message("p", id, "y"); err == nil || len(s.All()[0].Prompts) != 1 {
		t.Errorf("message %v: %v", s.All(), err)
	}
	s.Close()
}

// What was done is written as soon as that is possible again; the work is not done twice.
func TestEndIsWrittenLater(t *testing.T) {
	for prompt, lines := range map[string]int{"x [sandbox:no-change]": 3, "x": 4} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, Options{Dir: dir, Editor: words{time.Minute}})
			id := create(t, s, prompt)
			synctest.Wait()
			s.mu.Lock()
			broken := s.journal.file
			readOnly, err := os.Open(broken.Name())
			check(t, err)
			s.journal.file = readOnly
			s.mu.Unlock()
			time.Sleep(time.Hour)
			if j, _ := s.Get("p", id); j.Status != Active {
				t.Errorf("%s: %s without a journal", prompt, j.Status)
			}
			s.mu.Lock()
			s.journal.file = broken
			s.mu.Unlock()
			if got := atRest(s)[0]; got.Status != Completed || (link(got) != "") != (lines == 4) {
				t.Errorf("%s: %+v", prompt, got)
			}
			closeQueue(t, s)
			if text := journalText(t, dir); strings.Count(text, "\n") != lines {
				t.Errorf("%s: journal: %s", prompt, text)
			}
		})
	}
}

// Close in the middle of an instruction is like a crash: it is begun again.
func TestCloseInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, Options{Dir: dir, Editor: words{time.Hour}})
		id := create(t, s, "x")
		send(t, s, id, "y")
		time.Sleep(time.Minute)
		closeQueue(t, s)
		if _, err := s.Create("p", "y", ""); !errors.Is(err, errClosed) {
			t.Errorf("create after Close: %v", err)
		}
		e := &editor{}
		s = open(t, Options{Dir: dir, Editor: e})
		if got := atRest(s); len(got) != 1 || got[0].ID != id || got[0].Status != Completed || link(got[0]) == "" {
			t.Errorf("%+v", got)
		}
		if len(e.tasks) != 2 || !e.tasks[0].Again || e.tasks[1].Again {
			t.Errorf("want the first of two begun again, got %+v", e.tasks)
		}
		closeQueue(t, s)
	})
}

// TestInterrupted: a job that ends the process each time fails, but not because processes live briefly. A message tries
// again.
func TestInterrupted(t *testing.T) {
	for life, want := range map[time.Duration]Status{longWork - time.Second: Completed, longWork + time.Second: Failed} {
		synctest.Test(t, func(t *testing.T) {
			dir, e := t.TempDir(), &editor{}
			for n := range 3 * maxWorked {
				s := open(t, Options{Dir: dir, Editor: words{time.Hour}})
				if n == 0 {
					create(t, s, "x")
				}
				time.Sleep(life)
				closeQueue(t, s)
			}
			s := open(t, Options{Dir: dir, Editor: e})
			got := atRest(s)[0]
			if got.Status != want || strings.Contains(got.Failure, "interrupted 5 times") != (want == Failed) ||
				strings.Count(journalText(t, dir), `"worked"`) > maxWorked {
				t.Errorf("killed after %s: %+v", life, got)
			}
			send(t, s, got.ID, "y")
			if got = atRest(s)[0]; got.Status != Completed {
				t.Errorf("a message after that: %+v", got)
			}
			closeQueue(t, s)
		})
	}
}

// Half a line is gone as soon as the journal is opened, however long it was.
func TestHalfALineIsCutOff(t *testing.T) {
	good := createdLine("[sandbox:slow]")
	dir := writeJournal(t, good+`{"event":"message","job":"a","prompt":"`+strings.Repeat("x", 100_000))
	s := open(t, Options{Dir: dir})
	closeQueue(t, s)
	text := journalText(t, dir)
	if !strings.HasPrefix(text, good) || !strings.HasSuffix(text, "}\n") && text != good ||
		strings.Contains(text, "xx") {
		t.Errorf("%.300s", text)
	}
}

// TestReadJobs: the journal is read while another process writes to it, and nothing of it is changed.
func TestReadJobs(t *testing.T) {
	dir := t.TempDir()
	if all, err := ReadJobs(dir); err != nil || len(all) > 0 {
		t.Errorf("no journal: %v %v", all, err)
	}
	q := open(t, Options{Dir: dir})
	id := create(t, q, `one [report:{"cost":0.25,"denied":["Bash"],"refused":["x:443"]}]`)
	untilEnded(t, q, id)
	path := filepath.Join(dir, journalName)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteString(`{"at":"2026`) // a line that is just being written
	check(t, errors.Join(err, f.Close()))
	before := journalText(t, dir)
	all, err := ReadJobs(dir)
	if err != nil || len(all) != 1 || all[0].ID != id || all[0].Status != Completed || *all[0].Cost != 0.25 ||
		strings.Join(all[0].Report.Denied, "")+strings.Join(all[0].Report.Refused, "") != "Bashx:443" {
		t.Errorf("%+v %v", all, err)
	}
	if journalText(t, dir) != before {
		t.Error("the journal was changed")
	}
	check(t, os.Truncate(path, int64(strings.LastIndex(before, "\n")+1)))
	closeQueue(t, q)
}
