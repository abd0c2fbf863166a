package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clijobs "github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
)

// TestTortureJobs kills `docgauge jobs run` at random moments, the service throttles or
// refuses a project, and clocks are wrong. The jobs it accepted, by its journal, are compared with docgauge's: no
// prompt and no follow-up twice, none lost, and every job in doubt is listed with the
// remedy. Then a person says what became of those, and every prompt comes to its end.
// -torture is the number of kills; five prompts for each, so that there is something to
// kill.
func TestTortureJobs(t *testing.T) {
	engines.Long(t)
	t.Parallel()
	q := newTorturedQueue(t, max(60, 5**tortureKills))
	for round := 1; q.kills < *tortureKills && !q.done(round); round++ {
		q.changeMood(round)
		q.operate()
		if q.service.gate.draw(rand.IntN, tortureProjects...); round%moodRounds == 0 && q.service.gate.ahead > 0 {
			q.service.gate.heal() // the service dies: a read that fails by such a clock is repeated hours later
		}
		q.killOnce(round)
	}
	q.service.gate.heal()
	q.service.restart(t, lossy)
	q.runToTheEnd()
	q.service.stop(t)
	before := q.judge()
	t.Logf("before unknown jobs were resolved: %+v; %v", before, q.service.gate.drawn)
	answers := q.resolveAll()
	q.service.restart(t, calm)
	q.env = append(q.env, "DOCGAUGE_TIMEOUT=1m") // a machine that is busy for a second puts nothing in doubt now
	q.runToTheEnd()
	q.service.stop(t)
	after := q.judge()
	t.Logf("after %+v: %+v", answers, after)
	if before.twice+before.lost+before.messagesTwice+after.twice+after.lost+after.messagesTwice > 0 ||
		after.unknown > 0 {
		t.Error("twice, lost and, in the end, unknown must be 0")
	}
	if q.long() && before.dropped*before.badGateway*before.throttled == 0 || before.unknownAccepted == 0 {
		t.Error("something that the service is to do did not happen: the torture says nothing")
	}
	q.compareEnds()
}

// torturedQueue is a folder of prompts, their queue and their service.
type torturedQueue struct {
	place
	t       *testing.T
	service *torturedService
	prompts []torturedPrompt
	// kills of docgauge, and releases of the queue and of what waited for its next
	// try.
	kills, releases int
	// dropped are prompts that a person gave up, and messages of prompts.
	dropped, droppedMessages map[string]bool
}

func newTorturedQueue(t *testing.T, n int) *torturedQueue {
	q := &torturedQueue{t: t, service: newTorturedService(t), dropped: map[string]bool{},
		droppedMessages: map[string]bool{}}
	q.dir = t.TempDir()
	q.prompts = writePrompts(t, q.dir, n)
	q.env = append(exec.Command("").Environ(), "DOCGAUGE_BASE_URL=http://"+q.service.address,
		"DOCGAUGE_API_KEY="+tortureKey,
		"DOCGAUGE_PROJECTS="+strings.Join(tortureProjects, ","), "DOCGAUGE_PROMPTS_DIR=prompts",
		"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit",
		"DOCGAUGE_MAX_JOBS_PER_DAY=0", "DOCGAUGE_MAX_ACTIVE_JOBS=0", "DOCGAUGE_AGENT_BUDGET=0", "DOCGAUGE_BUDGET=0",
		"DOCGAUGE_POLL_INTERVAL=1s", "DOCGAUGE_TIMEOUT=1s")
	return q
}

// done reports whether there is nothing left to kill, looking every now and then.
func (q *torturedQueue) done(round int) bool {
	return round%10 == 0 && !slices.ContainsFunc(q.plan(), goesOn)
}

// long reports whether there is time for what takes minutes.
func (q *torturedQueue) long() bool { return len(q.prompts) >= 500 }

// moodRounds is the number of runs before the service changes.
const moodRounds = 4

// changeMood kills the service every now and then, at the moment of one of the
// runs, and starts it with other faults.
func (q *torturedQueue) changeMood(round int) {
	if round%moodRounds != 1 {
		return
	}
	mood := moods[(round/moodRounds)%len(moods)]
	if q.long() && q.kills >= *tortureKills/3 && !q.service.closed {
		mood, q.service.closed = throttlingForLong, true
	}
	q.service.restart(q.t, mood)
}

// killOnce runs the queue and kills it: around the moment when the service has
// accepted a few prompts more, or at any.
func (q *torturedQueue) killOnce(round int) {
	cmd, ended := q.start()
	limit := time.Now().Add(time.Duration(rand.IntN(900)) * time.Millisecond)
	enough := q.service.accepted(q.t) + 1_000_000
	if round%3 != 0 {
		limit, enough = time.Now().Add(2*time.Second), enough-1_000_000+1+rand.IntN(4)
	}
	for time.Now().Before(limit) && q.service.accepted(q.t) < enough {
		select {
		case err := <-ended:
			q.ran(err)
			return
		case <-time.After(time.Millisecond):
		}
	}
	time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
	if round%moodRounds == 0 {
		q.service.kill()
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	if exit, ok := errors.AsType[*exec.ExitError](<-ended); ok && !exit.Exited() {
		q.kills++
	}
}

func (q *torturedQueue) start() (*exec.Cmd, <-chan error) {
	cmd := q.command("jobs", "run", "--wait")
	cmd.Env = append(cmd.Env, q.service.gate.clock())
	dieWithUs(cmd)
	check(q.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd, ended
}

// ran expects that a run has ended by itself: 1 is for jobs in doubt, or failed.
func (q *torturedQueue) ran(err error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != exitFailed) {
		q.t.Fatalf("jobs run: %v; %s", err, q.run(q.t, "jobs", "list"))
	}
}

// runToTheEnd lets runs through until all that is left needs a person who knows the jobs of the
// service.
func (q *torturedQueue) runToTheEnd() {
	q.operate()
	for range 200 {
		q.attend()
		if paused := q.operate(); !paused && !slices.ContainsFunc(q.plan(), goesOn) {
			return
		}
	}
	q.t.Fatalf("200 runs are not enough:\n%s", q.run(q.t, "jobs", "plan"))
}

// attend lets one run through, with the operator beside it.
func (q *torturedQueue) attend() {
	_, ended := q.start()
	for {
		select {
		case err := <-ended:
			q.ran(err)
			return
		case <-time.After(2 * time.Second):
			q.operate()
		}
	}
}

// goesOn reports whether a prompt moves on by itself.
func goesOn(p jobs.Planned) bool {
	waits := p.Why == "depends_on" || p.Why == "concurrency"
	return !p.State.Ended() && p.State != journal.Unknown && (p.State != journal.Pending || !waits)
}

// operate acts like a person in a hurry: a paused queue continues, and
// prompts that wait for their next try are sent at once. Unknown jobs stay unknown.
func (q *torturedQueue) operate() (paused bool) {
	list := q.list()
	if paused = list.Queue.Paused != ""; paused {
		q.releases++
		q.run(q.t, "jobs", "release")
	}
	forbidden := map[string]bool{} // projects that were refused for a while
	for _, p := range q.plan() {
		forbidden[p.Project] = forbidden[p.Project] || p.Why == "forbidden"
	}
	for _, job := range list.Jobs {
		// The job that was refused need not be the first of its project: another may have its concurrency key now.
		isForbidden := forbidden[job.Project] && job.Next.IsZero()
		if wait := time.Until(job.Blocked); job.State == journal.Pending && wait > 0 &&
			(isForbidden || wait < time.Minute || wait > time.Hour) { // by a clock that was ahead
			q.release(strconv.FormatInt(job.Seq, 10))
		}
	}
	return paused
}

// release may come too late: the job has been sent by then.
func (q *torturedQueue) release(job string) {
	q.releases++
	code, _, log := q.try(q.t, "jobs", "release", job)
	if code != exitDone && code != exitUsage {
		q.t.Errorf("jobs release %s: exit code %d\n%s", job, code, log)
	}
}

func (q *torturedQueue) list() (list clijobs.List) {
	q.decode(&list, "jobs", "list", "--json")
	return list
}

func (q *torturedQueue) plan() (all []jobs.Planned) {
	q.decode(&all, "jobs", "plan", "--json")
	return all
}

// decode reads the JSON that a command prints.
func (q *torturedQueue) decode(into any, args ...string) {
	q.t.Helper()
	if err := json.Unmarshal(q.run(q.t, args...), into); err != nil {
		q.t.Fatal(fmt.Errorf("docgauge %s: %w", strings.Join(args, " "), err))
	}
}
