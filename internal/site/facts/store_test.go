package facts

import (
	"bytes"
	gocmp "cmp"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// visit is a view as the model knows it, or, of kind Missed or Redirected, a path that is not there, or evidence.
type visit struct {
	who, path string
	day       analytics.Date
	kind      uint8
	agent     string // empty: a browser
	network   string // of a path that is not there
	source    string // of a person
	markdown  bool
	bytes     int64
	evidence  bool
}

// model counts the same by brute force.
type model struct {
	*Store
	dir    string
	visits []visit
	pages  []Page
	agents []Agent
	from   []Referral
	keys   map[Epoch][]byte // that were ever used
}

const project = "prj_docs"

func newModel(t *testing.T) *model {
	m := &model{dir: t.TempDir(), keys: map[Epoch][]byte{}}
	m.reopen(t)
	t.Cleanup(func() { check(t, m.Close()) })
	return m
}

func (m *model) reopen(t *testing.T) {
	t.Helper()
	if m.Store != nil {
		check(t, m.Close())
	}
	var err error
	m.Store, err = Open(m.dir)
	check(t, err)
}

// commit adds visits, and returns how many were late.
func (m *model) commit(t *testing.T, visits []visit) (late int) {
	t.Helper()
	b, late := m.batch(t, visits)
	check(t, m.Commit(t.Context(), b))
	return late
}

// batch adds visits to the model, and returns them, but those that are late.
func (m *model) batch(t *testing.T, visits []visit) (b Batch, late int) {
	t.Helper()
	b = Batch{Projects: []string{project}, Positions: map[string][]byte{"log": fmt.Append(nil, len(m.visits))}}
	for _, v := range visits {
		keys, open, err := m.Keys(t.Context(), project, EpochOf(v.day), v.day.Time())
		check(t, err)
		if !open {
			late++
			continue
		}
		m.keys[EpochOf(v.day)-1], m.keys[EpochOf(v.day)] = keys[0], keys[1]
		if v.evidence {
			b.Shown = append(b.Shown, Shown{Day: v.day,
				Readers: [2]uint64{NewHash(keys[0]).ID([]byte(v.who)), NewHash(keys[1]).ID([]byte(v.who))}})
			m.visits = append(m.visits, v)
			continue
		}
		missed := Epoch(0)
		if v.kind >= Missed {
			missed = EpochOf(v.day)
		}
		at := slices.IndexFunc(m.pages, func(p Page) bool { return p.Path == v.path && (p.Missed == 0) == (missed == 0) })
		if at < 0 {
			at = len(m.pages)
			m.pages = append(m.pages, Page{int32(at), project, v.path, missed})
			b.Pages = append(b.Pages, m.pages[at])
		}
		referral := int32(NoReferral)
		if v.kind == Human {
			source := Referral{int32(len(m.from)), v.source, "class of " + v.source}
			if referral = int32(slices.IndexFunc(m.from, func(r Referral) bool { return r.Name == v.source })); referral < 0 {
				referral, m.from, b.Referrals = source.Number, append(m.from, source), append(b.Referrals, source)
			}
		}
		add := func(agent int32, who string) {
			b.Views = append(b.Views, View{Day: v.day, Page: int32(at), Agent: agent, Kind: v.kind, Referral: referral,
				Markdown: v.markdown, Bytes: v.bytes,
				Readers: [2]uint64{NewHash(keys[0]).ID([]byte(who)), NewHash(keys[1]).ID([]byte(who))}})
		}
		agent := int32(Browser)
		if v.agent != "" {
			agent = int32(slices.IndexFunc(m.agents, func(a Agent) bool { return a.Token == v.agent }))
			if agent < 0 {
				agent = int32(len(m.agents))
				m.agents = append(m.agents, Agent{Number: agent, Token: v.agent, Class: classOf[v.agent]})
				b.Agents = append(b.Agents, m.agents[agent])
			}
		}
		add(agent, v.who)
		if v.kind >= Missed {
			add(Network, v.network)
		}
		m.visits = append(m.visits, v)
	}
	return b, late
}

// confirmed is the people with evidence that counts in a window.
func (m *model) confirmed(from, to analytics.Date) map[string]bool {
	who := map[string]bool{}
	for _, v := range m.visits {
		if v.evidence && v.day >= EpochOf(from).From() && v.day < to {
			who[v.who] = true
		}
	}
	return who
}

// want is the answer by brute force.
func (m *model) want(from, to analytics.Date, mode analytics.Humans) Visitors {
	type set [3]map[string]bool
	sets, confirmed := map[string]*set{}, m.confirmed(from, to)
	for _, v := range m.visits {
		if v.day < from || v.day >= to || v.kind >= Neither || v.evidence ||
			mode == analytics.Confirmed && v.kind == Human && !confirmed[v.who] {
			continue
		}
		for _, path := range []string{"", v.path} {
			if sets[path] == nil {
				sets[path] = &set{{}, {}, {}}
			}
			sets[path][v.kind][v.who], sets[path][2][v.who] = true, true
		}
	}
	var a Visitors
	for path, s := range sets {
		r := analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(len(s[Human])), AI: int64(len(s[AI])),
			Total: int64(len(s[2]))}}
		if path == "" {
			a.Totals = r.Totals
			continue
		}
		a.Rows = append(a.Rows, r)
	}
	slices.SortFunc(a.Rows, analytics.ByVisitors)
	return a
}

// wantSources is the report by brute force.
func (m *model) wantSources(from, to analytics.Date) (a Sources) {
	rows, confirmed := map[analytics.SourceRow][]string{}, m.confirmed(from, to)
	for _, v := range m.visits {
		if v.day < from || v.day >= to || v.kind != Human || v.evidence {
			continue
		}
		r := analytics.SourceRow{Source: v.source, Class: "class of " + v.source, Agent: "unconfirmed"}
		if confirmed[v.who] {
			r.Agent = "browser"
		}
		for _, r.Path = range []string{"", v.path} {
			rows[r] = append(rows[r], v.who)
		}
	}
	for r, visits := range rows {
		r.Requests = int64(len(visits))
		slices.Sort(visits)
		r.Visitors = int64(len(slices.Compact(visits)))
		if r.Path == "" {
			a.Totals = append(a.Totals, r)
		} else {
			a.Rows = append(a.Rows, r)
		}
	}
	for _, list := range [][]analytics.SourceRow{a.Totals, a.Rows} {
		slices.SortFunc(list, func(x, y analytics.SourceRow) int {
			return slices.Compare([]string{x.Path, x.Source, x.Agent}, []string{y.Path, y.Source, y.Agent})
		})
	}
	return a
}

// wantViews is the report by brute force.
func (m *model) wantViews(from, to analytics.Date) (a Views) {
	rows := map[string]analytics.ViewRow{}
	for _, v := range m.visits {
		if v.day < from || v.day >= to || v.kind >= Neither || v.evidence {
			continue
		}
		r := rows[v.path]
		r.Path = v.path
		if v.kind == Human {
			r.Human++
			a.Totals.Human++
		} else {
			r.AI++
			a.Totals.AI++
		}
		r.Total++
		a.Totals.Total++
		rows[v.path] = r
	}
	a.Rows = slices.SortedFunc(maps.Values(rows), func(x, y analytics.ViewRow) int {
		return gocmp.Or(gocmp.Compare(y.Total, x.Total), strings.Compare(x.Path, y.Path))
	})
	return a
}

func (m *model) check(t *testing.T, from, to analytics.Date) {
	t.Helper()
	check(t, m.compare(t, from, to))
}

func (m *model) compare(t *testing.T, from, to analytics.Date) error {
	type report struct{ want, got any }
	sources, err := m.CountSources(t.Context(), project, from, to, analytics.Claimed) // the mode changes nothing here
	views, viewsErr := m.CountViews(t.Context(), project, from, to, analytics.Claimed)
	if err := errors.Join(err, viewsErr); err != nil {
		return err
	}
	reports := []report{{m.wantSources(from, to), sources}, {m.wantViews(from, to), views}}
	for _, mode := range []analytics.Humans{analytics.Claimed, analytics.Confirmed} {
		visitors, err := m.CountVisitors(t.Context(), project, from, to, mode)
		agents, agentsErr := m.CountAgents(t.Context(), project, from, to, mode)
		if err := errors.Join(err, agentsErr); err != nil {
			return err
		}
		checkBounds(t, visitors, agents)
		reports = append(reports, report{m.want(from, to, mode), visitors}, report{m.wantAgents(from, to, mode), agents})
	}
	for i, r := range reports {
		if diff := cmp.Diff(r.want, r.got, cmpopts.EquateEmpty()); diff != "" {
			return fmt.Errorf("[%s,%s), report %d (-want, +got):\n%s", from, to, i, diff)
		}
	}
	return nil
}

// checkBounds compares the two reports: the readers of an audience are at least as many as its largest
// agent has, and at most as many as all its agents have.
func checkBounds(t *testing.T, v Visitors, a Agents) {
	t.Helper()
	type key struct {
		path string
		of   analytics.Audience
	}
	most, sum := map[key]int64{}, map[key]int64{}
	for _, r := range slices.Concat(a.Totals, a.Rows) {
		if k := (key{r.Path, r.Audience}); r.Found {
			most[k], sum[k] = max(most[k], r.Visitors), sum[k]+r.Visitors
		}
		if r.Visitors < 1 || r.Requests < r.Visitors {
			t.Fatalf("%+v: fewer requests than readers, or none", r)
		}
	}
	for _, r := range append(v.Rows, analytics.Row{Totals: analytics.Totals{Human: v.Totals.Human, AI: v.Totals.AI}}) {
		for _, of := range []analytics.Audience{analytics.Human, analytics.AI} {
			k := key{r.Path, of}
			if n := r.Totals.Of(of); n < most[k] || n > sum[k] {
				t.Fatalf("%+v, but the largest agent of %s has %d, all %d", r, of, most[k], sum[k])
			}
		}
	}
}

// classOf are the agents of the model. The audience of a miss follows from them.
var classOf = map[string]string{"Claude-User": "answers", "GPTBot": "training", "curl": "tool"}

// wantAgents is the report by brute force.
func (m *model) wantAgents(from, to analytics.Date, mode analytics.Humans) (a Agents) {
	confirmed := m.confirmed(from, to)
	rows := map[analytics.AgentRow][]visit{} // without numbers
	type miss struct {
		networks map[string]bool
		requests int64
	}
	misses := map[string]*miss{}
	for _, v := range m.visits {
		if v.day < from || v.day >= to || v.kind == Redirected || v.evidence {
			continue
		}
		r := analytics.AgentRow{Path: v.path, Agent: v.agent, Class: classOf[v.agent], Found: v.kind != Missed}
		switch {
		case v.agent == "" && v.kind == Human:
			r.Agent, r.Class = "browser", "human"
		case v.agent == "":
			r.Agent, r.Class = "unnamed", "coding"
		}
		r.Audience = [...]analytics.Audience{"human", "ai", "neither", "ai"}[v.kind]
		if r.Agent == "browser" && !confirmed[v.who] {
			r.Agent = "unconfirmed"
			if mode == analytics.Confirmed {
				r.Audience = "neither"
			}
		}
		if v.kind == Missed && v.agent == "GPTBot" {
			r.Audience = "neither"
		}
		rows[r] = append(rows[r], v)
		if r.Found {
			r.Path = ""
			rows[r] = append(rows[r], v)
			continue
		}
		if misses[v.path] == nil {
			misses[v.path] = &miss{networks: map[string]bool{}}
		}
		misses[v.path].networks[v.network] = true
		misses[v.path].requests++
	}
	paths := slices.SortedFunc(maps.Keys(misses), func(x, y string) int {
		return gocmp.Or(gocmp.Compare(misses[y].requests, misses[x].requests), strings.Compare(x, y))
	})
	paths = slices.DeleteFunc(paths, func(path string) bool { return len(misses[path].networks) < 2 })
	paths = paths[:min(len(paths), analytics.MaxMisses)]
	for r, visits := range rows {
		who := map[string]bool{}
		for _, v := range visits {
			who[v.who] = true
			if v.markdown {
				r.Markdown++
			}
			if r.Bytes += v.bytes; v.bytes < 0 {
				r.Bytes = math.MinInt64 / 2
			}
		}
		r.Visitors, r.Requests, r.Bytes = int64(len(who)), int64(len(visits)), max(r.Bytes, -1)
		switch {
		case r.Path == "":
			a.Totals = append(a.Totals, r)
		case r.Found || slices.Contains(paths, r.Path):
			a.Rows = append(a.Rows, r)
		}
	}
	found := map[bool]string{false: "1", true: "2"}
	order := func(r analytics.AgentRow) []string {
		return []string{r.Path, r.Agent, string(r.Audience), found[r.Found]}
	}
	for _, list := range [][]analytics.AgentRow{a.Totals, a.Rows} {
		slices.SortFunc(list, func(x, y analytics.AgentRow) int { return slices.Compare(order(x), order(y)) })
	}
	return a
}

// randomDay makes visits of a day. Readers keep their agent, but for some: the table of agents changes.
func randomDay(rng *rand.Rand, day analytics.Date, n int) (all []visit) {
	names := append(slices.Sorted(maps.Keys(classOf)), "", "")
	for range n {
		who := rng.IntN(60)
		v := visit{who: fmt.Sprint("reader ", who), path: fmt.Sprint("/page", rng.IntN(9)), day: day,
			kind: AI + uint8(rng.IntN(2)), agent: names[who%len(names)], bytes: 1000 << rng.IntN(3)}
		if rng.IntN(9) == 0 {
			v.bytes = rng.Int64N(1<<(8*rng.Int64N(5))+1) - 1
		}
		if who%7 == 0 && EpochOf(day)%2 == 0 {
			v.agent = names[(who+1)%len(names)]
		}
		switch what := rng.IntN(9); {
		case what < 2:
			v.kind, v.network = Missed, fmt.Sprint("network ", who%6)
			v.path = fmt.Sprint("/page", rng.IntN(30))
		case what == 2:
			v.kind, v.network = Redirected, fmt.Sprint("network ", who%6)
			v.path = fmt.Sprint("/page", rng.IntN(30))
		case what == 3 && who%3 > 0:
			v = visit{who: v.who, day: day, evidence: true}
		case v.agent == "":
			v.kind = uint8(rng.IntN(2))
		}
		v.markdown = v.kind < Missed && rng.IntN(3) == 0
		if v.kind == Human {
			v.source = []string{"none", "site", "google", "chatgpt", "claude"}[rng.IntN(5)]
		}
		all = append(all, v)
	}
	return all
}

// TestEveryWindow: over a year with a leap day every day, week, month and rolling window is exact, whatever is
// merged, closed, reopened or late meanwhile, and also after all epochs are closed.
func TestEveryWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 30))
	m := newModel(t)
	first, last := analytics.NewDate(2027, 5, 1), analytics.NewDate(2028, 5, 1)
	late := 0
	for day := first; day < last; day++ {
		visits := randomDay(rng, day, rng.IntN(12))
		if rng.IntN(5) == 0 {
			visits = append(visits, randomDay(rng, max(first, day-analytics.Date(rng.IntN(90))), 3)...)
		}
		for len(visits) > 0 { // several commits a day
			n := len(visits)
			if rng.IntN(4) == 0 {
				n = 1 + rng.IntN(n)
			}
			late += m.commit(t, visits[:n])
			visits = visits[n:]
		}
		switch rng.IntN(6) {
		case 0:
			check(t, m.Merge(t.Context()))
		case 1:
			check(t, m.MergeDay(t.Context(), day-1))
		case 2:
			m.reopen(t)
		}
		open, err := m.OpenEpochs(t.Context())
		check(t, err)
		for _, e := range open {
			if e.Epoch.To()+3 <= day {
				check(t, m.CloseEpoch(t.Context(), project, e.Epoch))
			}
		}
		from := []analytics.Date{day, day - analytics.Date((day.Weekday()+6)%7), EpochOf(day).From(), day - 6, day - 28}
		m.check(t, from[rng.IntN(len(from))], day+1)
	}
	if late == 0 {
		t.Error("no visit was late")
	}
	for day := first; day < last; day++ {
		m.check(t, day, day+[]analytics.Date{1, 7, 28, 29}[rng.IntN(4)])
		if day == EpochOf(day).From() {
			m.check(t, day, (EpochOf(day) + 1).From())
			m.check(t, day, EpochOf(day).To())
		}
	}
	if problems, err := m.Verify(t.Context()); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// leads counts what identifies readers in any file: the key of an epoch, and the ids of readers under it.
func (m *model) leads(t *testing.T, epoch Epoch) (found int) {
	var all []byte
	check(t, filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(append(all, data...), make([]byte, 64)...)
		return err
	}))
	if bytes.Contains(all, m.keys[epoch]) {
		found++
	}
	hash := NewHash(m.keys[epoch])
	for who := range 66 {
		name := fmt.Sprint("reader ", who)
		if who >= 60 {
			name = fmt.Sprint("network ", who-60)
		}
		id := hash.ID([]byte(name))
		if bytes.Contains(all, binary.LittleEndian.AppendUint64(nil, id)) {
			found++
		}
	}
	return found
}

// TestHash has two vectors of the authors of SipHash: readers of an open epoch keep their ids after an update.
func TestHash(t *testing.T) {
	key := make([]byte, KeySize)
	for i := range key {
		key[i] = byte(i)
	}
	for n, want := range map[int]string{0: "a3817f04ba25a8e66df67214c7550293", 15: "5493e99933b0a8117e08ec0f97cfc3d9"} {
		low, high := NewHash(key).Sum(key[:n])
		sum := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, low), high)
		if got := fmt.Sprintf("%x", sum); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	if one, other := ForgottenHash(), ForgottenHash(); one == other {
		t.Error("two forgotten keys are equal")
	}
}

// TestMostMissed: of the paths that are not there, those most asked for are shown, the first by name of
// equals.
func TestMostMissed(t *testing.T) {
	m := newModel(t)
	day := analytics.NewDate(2026, 5, 5)
	var visits []visit
	for i := range analytics.MaxMisses + 50 {
		for k := range 2 + i%3 {
			visits = append(visits, visit{who: fmt.Sprint("reader ", k), path: fmt.Sprintf("/x%d", i), day: day,
				kind: Missed, agent: "Claude-User", network: fmt.Sprint("network ", k%2)})
		}
	}
	m.commit(t, visits)
	m.check(t, day, day+1)
	a, err := m.CountAgents(t.Context(), project, day, day+1, analytics.Claimed)
	check(t, err)
	if len(a.Rows) != analytics.MaxMisses || len(a.Totals) != 0 {
		t.Errorf("%d paths are shown, %d totals", len(a.Rows), len(a.Totals))
	}
}

// TestNothingLeadsBack: when an epoch is closed, no file has the key or the id of anybody under it,
// not even a part that SQLite has deleted.
func TestNothingLeadsBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 30))
	m := newModel(t)
	for day := analytics.NewDate(2026, 1, 20); day < analytics.NewDate(2026, 3, 10); day++ {
		m.commit(t, randomDay(rng, day, 20))
	}
	leads := func() (found int) {
		for epoch := range m.keys {
			found += m.leads(t, epoch)
		}
		return found
	}
	if n := leads(); n < 60 {
		t.Fatalf("only %d keys and ids found while the epochs are open: the test looks at the wrong place", n)
	}
	open, err := m.OpenEpochs(t.Context())
	check(t, err)
	// Another process reads what was there before: it keeps what is deleted in SQLite's log.
	beside, err := Attach(m.dir)
	check(t, err)
	reading, err := beside.sql.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	check(t, err)
	var n int
	check(t, reading.QueryRow("SELECT count(*) FROM epochs").Scan(&n))
	for _, e := range open {
		check(t, m.CloseEpoch(t.Context(), e.Project, e.Epoch))
	}
	m.sql.SetMaxOpenConns(1)
	_, err = m.sql.Exec("PRAGMA busy_timeout(0)")
	check(t, err)
	if busy, err := m.Forget(t.Context()); !busy || err != nil {
		t.Fatalf("while another process reads: %v, %v", busy, err)
	}
	check(t, reading.Rollback())
	if busy, err := m.Forget(t.Context()); busy || err != nil {
		t.Fatal(busy, err)
	}
	defer beside.Close() //nolint:errcheck // it only read
	if n := leads(); n > 0 {
		t.Errorf("%d keys and ids are left", n)
	}
	m.check(t, analytics.NewDate(2026, 2, 1), analytics.NewDate(2026, 3, 1))
}

// TestDamage: every changed byte of a segment is found, and nothing is counted wrong.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 30))
	m := newModel(t)
	day := analytics.NewDate(2026, 5, 5)
	m.commit(t, randomDay(rng, day, 40))
	all, err := filepath.Glob(filepath.Join(m.dir, segmentDir, "*"))
	check(t, err)
	for _, file := range all {
		data, err := os.ReadFile(file)
		check(t, err)
		damaged := map[string][]byte{"empty": {}, "short": data[:len(data)-1], "long": append(slices.Clone(data), 0)}
		for i := range data {
			wrong := slices.Clone(data)
			wrong[i] ^= byte(1 + rng.IntN(255))
			damaged[fmt.Sprint("byte ", i)] = wrong
		}
		for what, wrong := range damaged {
			check(t, os.WriteFile(file, wrong, 0o600))
			problems, err := m.Verify(t.Context())
			if err != nil || len(problems) != 1 || !errors.Is(problems[0], ErrDamaged) {
				t.Errorf("%s, %s: %v, %v", file, what, problems, err)
			}
		}
		check(t, os.WriteFile(file, data, 0o600))
	}
	check(t, os.Remove(all[1]))
	// It has the day or the evidence, which are committed in any order.
	if _, err := m.CountVisitors(t.Context(), project, day, day+1, analytics.Confirmed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a segment: %v", err)
	}
	// Its key is destroyed all the same.
	if err := m.CloseEpoch(t.Context(), project, EpochOf(day)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closed without a segment: %v", err)
	}
	if open, err := m.OpenEpochs(t.Context()); err != nil || len(open) != 1 {
		t.Errorf("%v are open: %v", open, err)
	}
}

// TestOneCollector: there is one at a time, and it removes what one that died has left.
func TestOneCollector(t *testing.T) {
	m := newModel(t)
	if _, err := Open(m.dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a second collector: %v", err)
	}
	beside, err := Attach(m.dir)
	check(t, err)
	check(t, beside.Close())
	if _, err := Attach(t.TempDir()); !errors.Is(err, ErrMissing) {
		t.Errorf("nothing there: %v", err)
	}
	created := t.TempDir() // by a process that has not written its tables yet
	if err := os.WriteFile(filepath.Join(created, fileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(created); !errors.Is(err, ErrMissing) {
		t.Errorf("of a file without tables: %v", err)
	}
	check(t, os.WriteFile(filepath.Join(m.dir, segmentDir, "99.facts"), []byte("x"), 0o600))
	m.reopen(t)
	if _, err := os.Stat(filepath.Join(m.dir, segmentDir, "99.facts")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of a process that died: %v", err)
	}
	// The child of a process that was killed keeps its locks until it runs its program.
	for after, want := range map[time.Duration]bool{0: false, glance / 2: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			lock, err := os.Create(filepath.Join(created, lockName))
			check(t, err)
			if held, err := durable.TryLock(lock); err != nil || !held {
				t.Fatal(held, err)
			}
			time.AfterFunc(after, func() { lock.Close() })
			if used, err := (&Store{dir: created}).InUse(); err != nil || used != want {
				t.Errorf("in use although free after %s: %t, %v", after, used, err)
			}
			time.Sleep(after)
		})
	}
	former, err := Open(t.TempDir())
	check(t, err)
	_, err = former.sql.Exec("PRAGMA user_version = 3")
	check(t, errors.Join(err, former.Close()))
	name := filepath.Join(former.dir, fileName)
	before, err := os.ReadFile(name)
	check(t, err)
	for _, open := range []func(string) (*Store, error){Open, Attach} {
		if _, err := open(former.dir); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "its format is 3, and "+
			fmt.Sprintf("this docgauge reads and writes %d: ", version)) {
			t.Errorf("of a former version: %v", err)
		}
	}
	if after, err := os.ReadFile(name); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the site of a former version was changed, %v", err)
	}
	bad := t.TempDir()
	check(t, os.WriteFile(filepath.Join(bad, fileName), bytes.Repeat([]byte("no database "), 1000), 0o600))
	if _, err := Open(bad); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), remedy) {
		t.Errorf("no database: %v", err)
	}
}

// TestCountBesideCommit: a commit with a new page and a new agent while a count begins does not make the count fail.
func TestCountBesideCommit(t *testing.T) {
	m := newModel(t)
	day := analytics.NewDate(2026, 1, 10)
	m.commit(t, []visit{{who: "a", path: "/first", day: day}})
	for i, count := range []func() error{
		func() error {
			_, err := m.CountVisitors(t.Context(), project, day, day+1, analytics.Claimed)
			return err
		},
		func() error { _, err := m.CountAgents(t.Context(), project, day, day+1, analytics.Claimed); return err },
	} {
		for _, when := range []string{"before names", "after names"} {
			done := false
			m.at = func(step string) error {
				if step == when && !done {
					done = true
					path := fmt.Sprint("/new", i, when)
					m.commit(t, []visit{{who: "b", path: path, day: day, kind: AI, agent: path}})
				}
				return nil
			}
			if err := count(); err != nil {
				t.Errorf("count %d, commit %s are read: %v", i, when, err)
			}
			m.at = nil
		}
	}
	m.check(t, day, day+1)
}

// TestManyProjects: the keys of all projects cost one transaction, before any of their facts, and the facts another.
func TestManyProjects(t *testing.T) {
	const projects = 30
	day := analytics.NewDate(2026, 2, 3)
	m := newModel(t)
	var steps []string
	var mu sync.Mutex
	m.at = func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasSuffix(step, " segment") {
			steps = append(steps, step)
		}
		return nil
	}
	var b Batch
	for i := range projects {
		name := fmt.Sprint("prj_", i)
		keys, open, err := m.Keys(t.Context(), name, EpochOf(day), day.Time())
		again, _, _ := m.Keys(t.Context(), name, EpochOf(day), day.Time())
		if check(t, err); !open || !cmp.Equal(keys, again) {
			t.Fatalf("%s: open: %v, %x, then %x", name, open, keys, again)
		}
		b.Projects = append(b.Projects, name)
		b.Pages = append(b.Pages, Page{int32(i), name, "/", 0})
		b.Views = append(b.Views, View{Readers: [2]uint64{1, 1}, Day: day, Project: int32(i), Page: int32(i), Agent: Browser})
	}
	check(t, m.Commit(t.Context(), b))
	m.at = nil
	want := []string{"before transaction", "after transaction", "before directory", "after directory",
		"before transaction", "after transaction"}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	open, err := m.OpenEpochs(t.Context())
	if check(t, err); len(open) != 2*projects {
		t.Errorf("%d epochs are open, want %d", len(open), 2*projects)
	}
}

// TestMergeKeepsAgents: a reader whose agent has another name after an update of the table is one reader of each,
// before the segments of the day are merged, after it, and after the epoch is closed.
func TestMergeKeepsAgents(t *testing.T) {
	m := newModel(t)
	day := analytics.NewDate(2026, 1, 10)
	m.commit(t, []visit{{who: "a", path: "/x", day: day, kind: Neither, agent: "unknown"},
		{who: "b", path: "/x", day: day}})
	m.commit(t, []visit{{who: "a", path: "/x", day: day, kind: AI, agent: "claude"},
		{who: "a", path: "/y", day: day, kind: AI, agent: "claude"}})
	m.commit(t, []visit{{who: "a", path: "/y", day: day, kind: AI, agent: "unknown"}})
	before, err := m.CountAgents(t.Context(), project, day, day+1, analytics.Claimed)
	check(t, err)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"merged", func() error { return m.MergeDay(t.Context(), day) }},
		{"closed", func() error { return m.CloseEpoch(t.Context(), project, EpochOf(day)) }},
	} {
		check(t, step.do())
		after, err := m.CountAgents(t.Context(), project, day, day+1, analytics.Claimed)
		check(t, err)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
	m.check(t, day, day+1)
}

// TestMergeBesideDamage: a damaged segment is an error of merging once; neither the other segments of its day nor the
// other projects stay unmerged because of it.
func TestMergeBesideDamage(t *testing.T) {
	for name, merge := range map[string]func(*Store, analytics.Date) error{
		"Merge":    func(s *Store, _ analytics.Date) error { return s.Merge(t.Context()) },
		"MergeDay": func(s *Store, day analytics.Date) error { return s.MergeDay(t.Context(), day) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t)
			day := analytics.NewDate(2026, 1, 10)
			projects := []string{"prj_a", "prj_b", "prj_c"}
			for _, p := range projects {
				_, _, err := m.Keys(t.Context(), p, EpochOf(day), day.Time())
				check(t, err)
			}
			pages := []Page{{0, "prj_a", "/", 0}}
			for i := range few + 1 {
				b := Batch{Projects: projects, Pages: pages}
				for p := range projects {
					id := uint64(i+1) << 32
					b.Views = append(b.Views, View{Readers: [2]uint64{id, id}, Day: day, Project: int32(p), Agent: Browser})
				}
				check(t, m.Commit(t.Context(), b))
				pages = nil
			}
			segs, err := m.segments(t.Context(), "project = 'prj_a'")
			check(t, err)
			name := filepath.Join(m.dir, segmentDir, segmentName(segs[2].number))
			data, err := os.ReadFile(name)
			check(t, err)
			check(t, os.WriteFile(name, data[1:], 0o600))

			if err := merge(m.Store, day); !errors.Is(err, ErrDamaged) {
				t.Errorf("first: %v", err)
			}
			check(t, merge(m.Store, day)) // the second time
			check(t, m.MergeDay(t.Context(), day))
			left, err := m.segments(t.Context(), "true")
			check(t, err)
			if want := 2*len(projects) + 1; len(left) != want {
				t.Errorf("%d segments, want %d: one of each project and epoch, and the damaged one", len(left), want)
			}
			gone := []segment{{number: left[len(left)-1].number + 1}}
			if err := m.replace(t.Context(), gone, nil, nil); err == nil {
				t.Error("a segment that another process removed was replaced")
			}
			if days, err := m.Days(t.Context()); err != nil || len(days) > 0 {
				t.Errorf("%v, %v are still to be merged", days, err)
			}
			check(t, os.WriteFile(name, data, 0o600)) // from a backup
			for _, p := range projects {
				if v, err := m.CountVisitors(t.Context(), p, day, day+1, analytics.Claimed); err != nil || v.Totals.Human != few+1 {
					t.Errorf("%s: %v, %v", p, v, err)
				}
			}
		})
	}
}

// TestPrivate: the directory of a site is its owner's alone, also one that was there before.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	for mode, refused := range map[os.FileMode]bool{0o777: false, 0o750: false, 0o700: false,
		0o777 | os.ModeSticky: true} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if (err != nil) != refused {
			t.Errorf("%s: %v", mode, err)
		}
		if err != nil {
			continue
		}
		info, err := os.Stat(dir)
		if err = errors.Join(err, s.Close()); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s became %s, %v", mode, info.Mode(), err)
		}
	}
}
