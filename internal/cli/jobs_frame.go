package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// standingNow is what the live table shows: how the prompts stand, and what holds
// them up.
type standingNow struct {
	planned []jobs.Planned
	queue   journal.Queue
	// since is when the run began: what ended before is only counted.
	since time.Time
	// caps and budgets say what is left.
	caps, budgets string
	settling      int
	stopping      bool
}

// rank is where a row stands in the table; what is further down goes first where
// there is no room.
type rank int

const (
	atWork   rank = iota // or in doubt
	inLine               // waits for its turn or its time
	setAside             // waits for somebody
	justEnded
)

type row struct {
	rank             rank
	prompt, project  string
	state, age, text string
	begun, ended     time.Time
	place            int
}

// frame returns the lines to show on a terminal of the size; the last one stays
// empty for the cursor.
func (s standingNow) frame(now time.Time, width, height int) []string {
	foot := s.foot(now, width)
	room := height - 1 - len(foot)
	rows := s.rows(now)
	if room < 2 || len(rows) == 0 {
		return foot
	}
	shown := rows
	if len(rows) > room-1 {
		shown = pick(rows, room-2)
	}
	lines := lay(shown, width)
	if left := len(rows) - len(shown); left > 0 {
		lines = append(lines, fmt.Sprintf("… and %s", plural(left, "prompt")))
	}
	return append(lines, foot...)
}

// rows are the prompts worth showing, best first.
func (s standingNow) rows(now time.Time) []row {
	var all []row
	for i, p := range s.planned {
		r := row{prompt: p.ID, project: p.Project, state: string(p.State), age: "-", text: orNext(p), place: i, rank: rankOf(p.State)}
		if p.Job != nil {
			r.ofJob(*p.Job, p, now)
		}
		if r.rank != justEnded || r.ended.After(s.since) {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b row) int {
		switch {
		case a.rank != b.rank:
			return cmp.Compare(a.rank, b.rank)
		case a.rank == atWork:
			return a.begun.Compare(b.begun)
		case a.rank == justEnded:
			return b.ended.Compare(a.ended)
		}
		return cmp.Compare(a.place, b.place)
	})
	return all
}

func rankOf(state journal.State) rank {
	switch {
	case state.Occupies():
		return atWork
	case state.Ended():
		return justEnded
	case state == journal.Pending:
		return inLine
	}
	return setAside
}

// ofJob enters what the newest job of a prompt tells.
func (r *row) ofJob(job journal.Job, p jobs.Planned, now time.Time) {
	if job.State != p.State {
		return // the prompt waits for another one
	}
	r.begun, r.ended, r.state = job.Begun, job.Ended, stateOfJob(job, now)
	if until := now; !job.Begun.IsZero() {
		if !job.Ended.IsZero() {
			until = job.Ended
		}
		r.age = age(until.Sub(job.Begun))
	}
	switch {
	case job.PRLink != "" && job.State.Ended():
		r.text = job.PRLink
	case job.State == journal.Active && p.Reason == "":
		r.text = atWorkOn(job)
	case job.State == journal.Completed && p.Reason == "":
		r.text = "no pull request"
	case job.State == journal.Submitting:
		r.text = "is being sent"
	}
}

// atWorkOn says how far a job is.
func atWorkOn(job journal.Job) string {
	text := job.JobID
	if job.Status != "" && job.Status != string(journal.Active) {
		text += ", " + job.Status
	}
	if job.Sent > 0 {
		text += fmt.Sprintf(", follow-up %d of %d", job.Sent, job.Messages)
	}
	return text
}

// age shows how long something takes, in two units.
func age(d time.Duration) string {
	switch d = max(d, 0).Truncate(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// pick returns n of the rows, in their order: what is at work first, then what
// waits, but at least half of what is left is for what has just ended.
func pick(rows []row, n int) []row {
	var of [justEnded + 1][]row
	for _, r := range rows {
		of[r.rank] = append(of[r.rank], r)
	}
	out := take(of[atWork], n)
	waiting := slices.Concat(of[inLine], of[setAside])
	left := n - len(out)
	ended := take(of[justEnded], max(left/2, left-len(waiting)))
	return slices.Concat(out, take(waiting, left-len(ended)), ended)
}

func take(rows []row, n int) []row { return rows[:min(len(rows), max(n, 0))] }

// wide is from how many columns on the project is shown.
const wide = 60

// lay puts rows below a header, in columns that fit.
func lay(rows []row, width int) []string {
	cells := [][]string{{"prompt", "project", "state", "age", "why, or pull request"}}
	for _, r := range rows {
		cells = append(cells, []string{r.prompt, r.project, r.state, r.age, r.text})
	}
	most := []int{max(10, width/4), width / 6, 16, 8, width}
	if width < wide {
		most[1] = 0
	}
	widths := make([]int, len(most))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = min(max(widths[i], twwidth.Width(plain(cell))), most[i])
		}
	}
	out := make([]string, len(cells))
	for i, line := range cells {
		var b strings.Builder
		for c, cell := range line {
			if widths[c] > 0 {
				b.WriteString(fill(cell, widths[c]) + "  ")
			}
		}
		out[i] = cut(strings.TrimRight(b.String(), " "), width)
	}
	return out
}

// foot are the lines below the table.
func (s standingNow) foot(now time.Time, width int) []string {
	parts := []string{s.counts()}
	for _, text := range []string{s.caps, s.budgets, s.next(now)} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if s.settling > 0 {
		parts = append(parts, have(s.settling, "file")+" just changed: looked at again soon")
	}
	if s.queue.Paused != "" {
		parts = append(parts, "paused: "+s.queue.Detail)
	}
	if s.stopping {
		parts = append(parts, "stopping once what is being sent is answered")
	}
	return flow(parts, width)
}

// flow puts parts on lines that fit, with dots between them.
func flow(parts []string, width int) []string {
	const dot = " · "
	var lines []string
	for _, part := range parts {
		last := len(lines) - 1
		if last >= 0 && twwidth.Width(lines[last]+dot+plain(part)) <= width {
			lines[last] += dot + plain(part)
			continue
		}
		lines = append(lines, cut(part, width))
	}
	return lines
}

// counts says how many prompts are in each state.
func (s standingNow) counts() string {
	if len(s.planned) == 0 {
		return "no prompts yet"
	}
	counts := map[journal.State]int{}
	for _, p := range s.planned {
		counts[p.State]++
	}
	var of []string
	for _, state := range journal.States() {
		if n := counts[state]; n > 0 {
			of = append(of, commas(int64(n))+" "+string(state))
		}
	}
	return plural(len(s.planned), "prompt") + ": " + strings.Join(of, ", ")
}

// next says when more may be sent, where that is known.
func (s standingNow) next(now time.Time) string {
	var next time.Time
	for _, p := range s.planned {
		switch {
		case p.State != journal.Pending:
		case p.Why == jobs.WhyActive:
			return "more may be sent when a job ends"
		case p.Until.After(now) && (next.IsZero() || p.Until.Before(next)):
			next = p.Until
		}
	}
	if next.IsZero() {
		return ""
	}
	text := next.UTC().Format("15:04:05 UTC")
	if next.Sub(now) > 12*time.Hour {
		text = clock(next)
	}
	return "more may be sent at " + text + ", in " + age(next.Sub(now))
}

// capText says what is used of a cap.
func capText(what string, used, limit int) string {
	if limit == 0 {
		return what + " " + strconv.Itoa(used)
	}
	return fmt.Sprintf("%s %d of %d", what, used, limit)
}
