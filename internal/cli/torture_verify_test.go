package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/verify"
	"github.com/docgauge/docgauge/sinks"
)

var tortureSeed = flag.Uint64("torture-seed", 9302801750466064731,
	"draws the operations of TestTortureVerify; 0 draws a seed, as `make torture` does")

// TestTortureVerify does to an installation, in random order, what operators and machines
// do: exports killed, with sinks taken out and put back, data lost, the state lost, an
// older state restored, wrong clocks, repairs killed, a project or a report refused. After each, `verify` must name the
// windows that a reader of a sink does not see whole at the ledger's revision, and no
// others; at the end of each round, repair, export and repair must leave nothing to find.
func TestTortureVerify(t *testing.T) {
	engines.Long(t)
	v := newVerifyTorture(t)
	rounds := max(2, *tortureKills/6)
	for range rounds {
		v.round()
	}
	t.Logf("%d rounds (seed %d): %d operations, %d findings expected and found, in %d windows of a sink",
		rounds, v.seed, v.steps, v.findings, v.looked)
}

// verifyTorture is one installation and its history.
type verifyTorture struct {
	*testing.T
	runs
	draw  *rand.Rand
	seed  uint64
	sinks []warehouse // beside Parquet
	older string      // a copy of the state, or empty

	steps, findings, looked int
	history                 []string
}

func newVerifyTorture(t *testing.T) *verifyTorture {
	v := &verifyTorture{T: t, seed: cmp.Or(*tortureSeed, rand.Uint64())}
	v.draw = rand.New(rand.NewPCG(v.seed, 0))
	s := tortureService(t, 20)
	v.service, v.gate = s.Sandbox, newGate(t, s.URL)
	v.place = torturePlace(t, v.gate)
	v.sinks = warehouses(t)
	for _, w := range v.sinks {
		v.env = append(v.env, w.env...)
	}
	return v
}

// names returns the sinks' names as DOCGAUGE_SINKS has them, without one of them.
func (v *verifyTorture) names(without string) string {
	names := []string{"parquet"}
	for _, w := range v.sinks {
		names = append(names, w.name)
	}
	return strings.Join(slices.DeleteFunc(names, func(n string) bool { return n == without }), ",")
}

// command runs docgauge with the given sinks; a kill is a step of an export, or comes after
// some milliseconds. It returns the output and the exit code, -1 for one that was killed.
func (v *verifyTorture) command(sinks, stop string, kill time.Duration, args ...string) (string, int) {
	v.Helper()
	cmd := v.place.command(args...)
	cmd.Env = append(cmd.Env, "STOP_AT="+stop, "DOCGAUGE_SINKS="+sinks, v.gate.clock())
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	check(v, cmd.Start())
	if kill > 0 {
		time.AfterFunc(kill, func() { _ = cmd.Process.Kill() })
	}
	err := cmd.Wait()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		v.Fatal(err)
	}
	v.history = append(v.history, fmt.Sprintf("DOCGAUGE_SINKS=%s STOP_AT=%s kill=%s with %s docgauge %s: %v\n%s",
		sinks, stop, kill, v.gate, strings.Join(args, " "), err, stderr.String()))
	if failed {
		return out.String(), exit.ExitCode()
	}
	return out.String(), 0
}

// round is some operations, then repair and export, after which all must be whole.
func (v *verifyTorture) round() {
	v.history = nil
	v.must(v.names(""), "export")
	v.compare()
	whole := v.ledger()
	operations := []func(){
		v.export, v.export, v.exportAgain, v.exportAgain, v.lose, v.lose, v.rebuild, v.restoreOlder,
		v.killedRepair, v.wrongClock, v.refused,
	}
	for range 6 {
		operations[v.draw.IntN(len(operations))]()
		v.steps++
		v.compare()
		if v.Failed() {
			v.Fatalf("seed %d; the operations:\n%s", v.seed, strings.Join(v.history, "\n"))
		}
	}
	v.command(v.names(""), "", 0, "check")              // asks again for refused windows
	v.command(v.names(""), "", 0, "verify", "--repair") // exits with 1 where windows are left to be read again
	v.must(v.names(""), "export")
	// An export that notices an older state leaves it to a repair to copy what one sink lacks.
	v.must(v.names(""), "verify", "--repair")
	v.must(v.names(""), "verify")
	v.compare()
	now := v.ledger()
	for key := range whole {
		if _, there := now[key]; !there {
			v.Errorf("%s is lost", key)
		}
	}
	if v.Failed() {
		v.Fatalf("seed %d; the operations:\n%s", v.seed, strings.Join(v.history, "\n"))
	}
}

func (v *verifyTorture) must(sinks string, args ...string) {
	v.Helper()
	if out, code := v.command(sinks, "", 0, args...); code != 0 {
		v.Fatalf("seed %d: %s: exit code %d\n%s\nthe operations:\n%s", v.seed, args, code, out,
			strings.Join(v.history, "\n"))
	}
}

// some returns all sinks, or, every other time, all but one.
func (v *verifyTorture) some() string {
	without := ""
	if all := strings.Split(v.names(""), ","); v.draw.IntN(2) == 0 {
		without = all[v.draw.IntN(len(all))]
	}
	return v.names(without)
}

// moment draws when a run is killed: never, at a step, or after some milliseconds.
func (v *verifyTorture) moment() (stop string, kill time.Duration) {
	switch v.draw.IntN(3) {
	case 0:
		return fmt.Sprintf("%s:%d", killSteps[v.draw.IntN(len(killSteps))], 1+v.draw.IntN(3)), 0
	case 1:
		return "", time.Duration(1+v.draw.IntN(400)) * time.Millisecond
	}
	return "", 0
}

func (v *verifyTorture) export() {
	stop, kill := v.moment()
	v.command(v.some(), stop, kill, "export")
}

// exportAgain reads some days again: their revision rises.
func (v *verifyTorture) exportAgain() {
	stop, kill := v.moment()
	from := v.today() - analytics.Date(2+v.draw.IntN(11))
	v.command(v.some(), stop, kill, "export", "--again", "--from", from.String(), "--to", (from + 2).String())
}

func (v *verifyTorture) today() analytics.Date { return analytics.DateOf(time.Now()) }

func (v *verifyTorture) rebuild() {
	v.copyState("")
	v.command(v.some(), "", 0, "status", "--rebuild")
}

// restoreOlder keeps a copy of the state, or puts an older one in its place.
func (v *verifyTorture) restoreOlder() {
	if v.older == "" {
		v.older = filepath.Join(v.TempDir(), "state")
		v.copyState(v.older)
		return
	}
	v.history = append(v.history, "restore an older state")
	v.replaceState(v.older)
	v.older = ""
}

func (v *verifyTorture) killedRepair() {
	v.command(v.names(""), "", time.Duration(1+v.draw.IntN(300))*time.Millisecond, "verify", "--repair")
}

// wrongClock exports while the clock is wrong. If the service says the time of its answers, nothing is read, settled or
// lost: the ledger has what it had, or, if it is older than the sinks, what they show. Windows that wait in the spool
// are delivered all the same: that reads nothing, and needs no clock. If its Date is wrong too, every window stays, and
// none becomes an older revision.
func (v *verifyTorture) wrongClock() {
	v.gate.setClock(wrongClocks[v.draw.IntN(len(wrongClocks))], v.draw.IntN(2) == 0)
	defer v.gate.heal()
	before, shown := v.ledger(), v.shown()
	_, code := v.command(v.names(""), "", 0, "export", "--again", "--from", (v.today() - 13).String(), "--to",
		(v.today() - 3).String())
	after := v.ledger()
	if v.gate.known && code != exitFailed {
		v.Errorf("an export with %s: exit code %d", v.gate, code)
	}
	for key, e := range before {
		if after[key].Number < e.Number {
			v.Errorf("%s: revision %d became %d", key, e.Number, after[key].Number)
		}
	}
	for key, e := range after {
		isShown := false
		for _, sink := range strings.Split(v.names(""), ",") {
			is := shown[location{sink, key}].is(e)
			if isShown = isShown || is; is && before[key].Has(sink) && !e.Has(sink) {
				v.Errorf("an export with %s: the ledger denies that %s has %s", v.gate, sink, key)
			}
		}
		was := before[key]
		isOwn := was.Number == e.Number && was.ExportedAt.Equal(e.ExportedAt)
		if v.gate.known && (isOwn && !was.Same(e.Revision) || !isOwn && !isShown) {
			v.Errorf("an export with %s: of %s the ledger had revision %d of %v (%s), and has %d of %v (%s)", v.gate, key,
				was.Number, was.ExportedAt, was.State(), e.Number, e.ExportedAt, e.State())
		}
	}
}

// refused exports everything while the service refuses a project or a report: all else is read, and nothing of it. What
// a sink showed before is not read but taken over, where the ledger is older than the sinks.
func (v *verifyTorture) refused() {
	v.command(v.names(""), "", 0, "check") // a report that the service lacked a moment ago is asked for once a day
	before, shown := v.ledger(), v.shown()
	for v.gate.heal(); v.gate.refused == ""; {
		v.gate.draw(v.draw.IntN, refusable...)
	}
	defer v.gate.heal()
	from, to := v.today()-analytics.Date(4+v.draw.IntN(9)), v.today()
	_, code := v.command(v.names(""), "", 0, "export", "--again", "--from", from.String(), "--to", to.String())
	if code != exitFailed {
		v.Errorf("an export with %s: exit code %d", v.gate, code)
	}
	for key, e := range v.ledger() {
		isShown := func(sink string) bool { return shown[location{sink, key}].is(e) }
		read := e.Number > before[key].Number && !slices.ContainsFunc(strings.Split(v.names(""), ","), isShown)
		wanted := from <= key.From && key.To <= to && key.Project != v.gate.refused &&
			key.Report.String() != v.gate.refused
		if read != wanted {
			v.Errorf("with %s, export --from %s --to %s of %s: read %v, want %v", v.gate, from, to, key, read, wanted)
		}
	}
}

// lose removes or damages a window of one sink.
func (v *verifyTorture) lose() {
	sinks := append([]warehouse{{name: "parquet"}}, v.sinks...)
	switch w := sinks[v.draw.IntN(len(sinks))]; w.name {
	case "parquet":
		v.harm(filepath.Join(v.dir, "data"))
	case "postgres":
		day := v.today() - analytics.Date(1+v.draw.IntN(14))
		table := []string{"docgauge_visitors", "docgauge_totals", "docgauge_agents",
			"docgauge_agents_windows"}[v.draw.IntN(4)]
		v.history = append(v.history, "postgres loses "+table+" of "+day.String())
		if _, err := w.query(v.Context(), fmt.Sprintf("DELETE FROM %s WHERE window_start = '%s'",
			table, day)); err != nil {
			v.Fatal(err)
		}
	}
}

// harm removes a window file below root, or half of it.
func (v *verifyTorture) harm(root string) {
	var files []string
	_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".parquet") {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return
	}
	file := files[v.draw.IntN(len(files))]
	whole, err := os.ReadFile(file)
	if err == nil {
		err = os.Remove(file) // not cut in place: Delta Lake may have a link to it
	}
	if v.history = append(v.history, file+" is lost"); err == nil && v.draw.IntN(2) == 0 {
		v.history = append(v.history, "but for its first half")
		err = os.WriteFile(file, whole[:len(whole)/2], 0o600)
	}
	check(v, err)
}

// copyState moves the state away, or copies it where there is a place for it.
func (v *verifyTorture) copyState(to string) {
	from := filepath.Join(v.dir, "state")
	if to == "" {
		v.history = append(v.history, "the state is lost")
		check(v, os.RemoveAll(from))
		return
	}
	v.history = append(v.history, "a copy of the state is made")
	check(v, os.CopyFS(to, os.DirFS(from)))
}

func (v *verifyTorture) replaceState(by string) {
	to := filepath.Join(v.dir, "state")
	check(v, errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(by)), os.RemoveAll(by)))
}

// location is a window in a sink.
type location struct {
	sink string
	key  analytics.Key
}

// seen is a window as a reader sees it.
type seen struct {
	revision int32
	exported int64 // microseconds
	rows     string
	damaged  bool
}

// compare expects of verify the windows that are not whole, and no others.
func (v *verifyTorture) compare() {
	v.Helper()
	all := v.names("")
	ledger := v.ledger()
	shown := v.shown()
	want := map[location]bool{}
	for _, sink := range strings.Split(all, ",") {
		for key, e := range ledger {
			at := location{sink, key}
			v.looked++
			if s := shown[at]; s.is(e) && s.rows == v.truth(e) {
				continue
			}
			// The next export delivers windows in the spool to each sink that lacks them.
			if has := !e.Sinks[sink].IsZero(); has || !v.spooled(e) {
				want[at] = true
			}
		}
	}
	for at := range shown {
		if _, known := ledger[at.key]; !known {
			want[at] = true
		}
	}
	got := v.verify(all)
	for at := range want {
		if !got[at] {
			v.Errorf("verify says nothing of %s %s: the ledger has %+v, a reader sees %+v", at.sink, at.key,
				ledger[at.key].Revision, brief(shown[at]))
		}
	}
	for at := range got {
		if !want[at] {
			v.Errorf("verify names %s %s, which is whole: the ledger has %+v, a reader sees %+v", at.sink, at.key,
				ledger[at.key].Revision, brief(shown[at]))
		}
	}
	v.findings += len(want)
}

// is reports whether it is the revision in the ledger.
func (s seen) is(e state.Entry) bool {
	return !s.damaged && s.revision == e.Number && s.exported == e.ExportedAt.UnixMicro()
}

func brief(s seen) seen {
	s.rows = fmt.Sprintf("%d rows", strings.Count(s.rows, "\n"))
	return s
}

// spooled reports whether the spool holds the revision whole, sealed or as a log of its pages.
func (v *verifyTorture) spooled(e state.Entry) bool {
	held, err := spool.Holds(filepath.Join(v.dir, "state"), e.Revision)
	check(v, err)
	return held
}

func (v *verifyTorture) ledger() map[analytics.Key]state.Entry {
	db, err := state.OpenExisting(filepath.Join(v.dir, "state"))
	check(v, err)
	defer db.Close()
	entries, err := db.Entries(v.Context())
	check(v, err)
	out := map[analytics.Key]state.Entry{}
	for _, e := range entries {
		out[e.Key] = e
	}
	return out
}

// truth returns the rows of a window as the service has them.
func (v *verifyTorture) truth(e state.Entry) string {
	if e.Report == analytics.AgentsReport {
		return text(agentsOf(v.T, v.service, e.Revision), agentLine)
	}
	if e.TotalsOnly() {
		return ""
	}
	_, rows, err := v.service.Visitors(e.Project, e.Window)
	if err != nil {
		v.Error(err)
	}
	return text(rows, visitorsLine)
}

// text returns rows as sorted lines.
func text[R any](rows []R, line func(R) string) string {
	var lines []string
	for _, r := range rows {
		lines = append(lines, line(r))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func visitorsLine(r analytics.Row) string {
	return fmt.Sprintf("%s\t%d\t%d\t%d\n", r.Path, r.Human, r.AI, r.Total)
}

func agentLine(r analytics.AgentRow) string {
	found := map[bool]int{true: 1}[r.Found]
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d\t%d\n", r.Path, r.Agent, r.Class, r.Audience, found, r.Visitors, r.Requests)
}

// shown returns the windows that a reader of each sink sees.
func (v *verifyTorture) shown() map[location]seen {
	shown := v.parquet()
	for _, w := range v.sinks {
		maps.Copy(shown, v.ask(w))
	}
	return shown
}

// parquet returns the windows that a reader of the files sees. The two files of a window of visitors must belong to
// one revision.
func (v *verifyTorture) parquet() map[location]seen {
	out := map[location]seen{}
	root := filepath.Join(v.dir, "data")
	for _, dataset := range []string{"totals", "visitors", "agents"} {
		_ = filepath.WalkDir(filepath.Join(root, dataset, "v1"), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".parquet") {
				return nil
			}
			at := location{"parquet", keyOf(v.T, path)}
			former, both := out[at]
			file, err := os.Open(path)
			check(v, err)
			defer file.Close()
			info, err := file.Stat()
			check(v, err)
			rev, err := archive.ReadFooter(file, info.Size())
			s := seen{revision: rev.Number, exported: rev.ExportedAt.UnixMicro(), damaged: err != nil}
			if dataset != "totals" && !s.damaged {
				s.rows, err = rowsOf(path)
				s.damaged = err != nil || dataset == "visitors" && (!both || former.damaged ||
					former.revision != s.revision || former.exported != s.exported)
			}
			out[at] = s
			return nil
		})
	}
	return out
}

func rowsOf(path string) (string, error) {
	f, err := archive.Open(path)
	if err != nil {
		return "", err
	}
	if f.Revision().Report == analytics.AgentsReport {
		return readText(f, agentLine)
	}
	return readText(f, visitorsLine)
}

// readText is the rows of a window file, a line each.
func readText[R analytics.RowType](f *archive.File, line func(R) string) (string, error) {
	var rows []R
	for row, err := range sinks.RowsOf[R](f) {
		if err != nil {
			return "", err
		}
		rows = append(rows, row)
	}
	return text(rows, line), nil
}

// keyOf reads the key from the path of a window file.
func keyOf(t *testing.T, path string) analytics.Key {
	parts := strings.Split(path, string(filepath.Separator))
	n := len(parts)
	from, to, _ := strings.Cut(strings.TrimSuffix(parts[n-1], ".parquet"), "_")
	report, err := analytics.ParseReport(strings.Replace(parts[n-6], "totals", "visitors", 1))
	check(t, err)
	return analytics.Key{Report: report,
		Project: strings.TrimPrefix(parts[n-4], "p="), Granularity: analytics.Granularity(strings.TrimPrefix(parts[n-3],
			"g=")),
		Window: analytics.Window{From: date(t, from), To: date(t, to)},
	}
}

// ask returns the windows that a reader of a warehouse sees.
func (v *verifyTorture) ask(w warehouse) map[location]seen {
	out := v.askReport(w, analytics.VisitorsReport, "docgauge_totals", "path, human, ai, total FROM docgauge_visitors")
	windows := "docgauge_agents_windows"
	if w.name == "delta" {
		windows = "docgauge_agents"
	}
	maps.Copy(out, v.askReport(w, analytics.AgentsReport, windows, "path, agent, class, audience, "+
		"CASE WHEN found THEN 1 ELSE 0 END AS is_found, visitors, requests FROM docgauge_agents"))
	return out
}

// askReport asks for the windows of a report, and for its rows.
func (v *verifyTorture) askReport(w warehouse, report analytics.Report, windows, rows string) map[location]seen {
	out := map[location]seen{}
	for _, f := range v.table(w, "SELECT DISTINCT project, granularity, window_start, window_end, revision, "+w.micros+
		" AS micros FROM "+windows) {
		revision, err := strconv.ParseInt(f[4], 10, 32)
		exported, err2 := strconv.ParseInt(f[5], 10, 64)
		check(v, errors.Join(err, err2))
		out[v.at(w, report, f)] = seen{revision: int32(revision), exported: exported}
	}
	lines := map[location][]string{}
	for _, f := range v.table(w, "SELECT project, granularity, window_start, window_end, revision, "+rows) {
		at := v.at(w, report, f)
		lines[at] = append(lines[at], strings.Join(f[5:], "\t")+"\n")
		if s, there := out[at]; !there || strconv.Itoa(int(s.revision)) != f[4] {
			s.damaged = true
			out[at] = s
		}
	}
	for at, all := range lines {
		slices.Sort(all)
		s := out[at]
		s.rows = strings.Join(all, "")
		out[at] = s
	}
	return out
}

func (v *verifyTorture) at(w warehouse, report analytics.Report, f []string) location {
	return location{w.name, analytics.Key{Report: report, Project: f[0],
		Granularity: analytics.Granularity(f[1]),
		Window:      analytics.Window{From: date(v.T, f[2]), To: date(v.T, f[3])}}}
}

func (v *verifyTorture) table(w warehouse, sql string) (rows [][]string) {
	ctx, cancel := context.WithTimeout(v.Context(), time.Minute)
	defer cancel()
	if w.name == "clickhouse" {
		sql += " FORMAT TSVRaw"
	}
	out, err := w.query(ctx, sql)
	if err != nil && !strings.Contains(err.Error(), w.absent) {
		v.Fatal(err)
	}
	if err == nil {
		for line := range strings.Lines(out) {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
	}
	return rows
}

// verify returns the windows that verify finds something wrong with.
func (v *verifyTorture) verify(sinks string) map[location]bool {
	v.Helper()
	out, code := v.command(sinks, "", 0, "verify", "--json")
	var report verify.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		v.Fatalf("verify: exit code %d, %v\n%s", code, err, strings.Join(v.history, "\n"))
	}
	v.history = v.history[:len(v.history)-1]
	if (code == 0) != (len(report.Findings) == 0) {
		v.Errorf("verify: %d findings, exit code %d", len(report.Findings), code)
	}
	found := map[location]bool{}
	for _, f := range report.Findings {
		if f.Key == nil {
			v.Errorf("of the whole sink: %+v", f)
			continue
		}
		found[location{f.Sink, *f.Key}] = true
	}
	return found
}

// TestClocks: the real binary, with each wrong clock, exports, sends prompts and serves. While the service's Date is
// right, no budget and no cap is given back, and nothing changes; if that is as wrong, each jump gives back one at most,
// which the log says. No window, file or job is lost.
func TestClocks(t *testing.T) {
	for _, ahead := range wrongClocks {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/Date right: %v", ahead, known), func(t *testing.T) {
				t.Parallel()
				const limit, days, prompts = 3, 12, 8
				s := testbed.NewService(t, sandbox.Config{Days: 20, Pages: 20, Agent: sandbox.Agent{After: time.Millisecond}})
				g := newGate(t, s.URL)
				server := httptest.NewServer(g)
				t.Cleanup(server.Close)
				v := &verifyTorture{T: t, runs: runs{gate: g, place: placeFor(t, &testbed.Service{URL: server.URL},
					[]string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(days).String(), "DOCGAUGE_WINDOWS=day",
					"DOCGAUGE_OPEN_WINDOWS=", "DOCGAUGE_BUDGET=3", "DOCGAUGE_MAX_JOBS_PER_DAY=3", "DOCGAUGE_PROMPTS_DIR=prompts",
					"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_POLL_INTERVAL=1s")}}
				for i := range prompts {
					writePrompt(t, filepath.Join(v.dir, "prompts", fmt.Sprintf("p%d.md", i)), fmt.Sprintf("Do %d.", i))
				}
				files := filepath.Join(v.dir, "data", "visitors")
				v.command("parquet", "", 0, "export")
				v.command("parquet", "", 0, "jobs", "run")
				before, held := v.ledger(), filesBelow(t, files)
				g.setClock(ahead, known)
				v.command("parquet", "", 0, "export")
				v.command("parquet", "", 0, "jobs", "run")
				if after := v.ledger(); known && !reflect.DeepEqual(before, after) {
					t.Errorf("the ledger was %v, and is %v", before, after)
				}
				wrong := place{v.dir, append(slices.Clip(v.env), g.clock())}
				daemon := wrong.serve(t, "--once-at-start")
				testbed.Await(t, "a run of serve", func() bool { return daemon.logged(t, "export ended") > 0 })
				daemon.stop(t)
				g.heal()
				for range 2 {
					v.command("parquet", "", 0, "export")
					v.command("parquet", "", 0, "jobs", "run")
				}
				reads := 0
				for _, r := range s.Requests() {
					if r.Method == http.MethodGet && strings.Contains(r.Path, "/analytics/") {
						reads++
					}
				}
				most := limit
				if !known {
					most = 2 * limit
				}
				creates := len(s.Jobs())
				if reads < limit || reads > most || creates < limit || creates > most {
					t.Errorf("%d requests and %d jobs, with a limit of %d", reads, creates, limit)
				}
				text, err := os.ReadFile(daemon.log)
				check(t, err)
				said := strings.Count(strings.Join(v.history, "\n")+string(text), "clock was ahead until it was set back")
				if max(reads, creates) > limit && said == 0 {
					t.Errorf("%d requests and %d jobs, and the log does not say that the clock was ahead", reads, creates)
				}
				after := v.ledger()
				for key, e := range before {
					if after[key].Number < e.Number {
						t.Errorf("%s: revision %d became %d", key, e.Number, after[key].Number)
					}
				}
				for name := range held {
					if _, there := filesBelow(t, files)[name]; !there {
						t.Errorf("%s is gone", name)
					}
				}
				if t.Failed() {
					t.Log(strings.Join(v.history, "\n"))
				}
			})
		}
	}
}

// filesBelow returns the files below a directory.
func filesBelow(t *testing.T, dir string) map[string]bool {
	all := map[string]bool{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path] = true
		}
		return err
	}))
	return all
}
