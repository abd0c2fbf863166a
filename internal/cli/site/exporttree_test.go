package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// treeSite is a site whose facts are exported as a tree.
type treeSite struct {
	*testing.T
	store *facts.Store
	tree  string
	rng   *rand.Rand
	first analytics.Date
	days  int
}

func newTreeSite(t *testing.T) *treeSite {
	dir := t.TempDir()
	t.Setenv("DOCGAUGE_SITE_DIR", filepath.Join(dir, "site"))
	store, err := facts.Open(filepath.Join(dir, "site"))
	s := &treeSite{T: t, store: store, tree: filepath.Join(dir, "tree"), rng: rand.New(rand.NewPCG(4, 7)),
		first: analytics.NewDate(2026, time.August, 11), days: 72}
	s.ok(err)
	t.Cleanup(func() { s.ok(store.Close()) })
	s.keep()
	return s
}

func (s *treeSite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// keep keeps the facts of a random log.
func (s *treeSite) keep() {
	s.Helper()
	agents := []string{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0", "curl/8.0", "Claude-User",
		"Mozilla/5.0 (compatible; ChatGPT-User/1.0; +https://openai.com/bot)",
		"Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"}
	pick := func(of ...string) string { return of[s.rng.IntN(len(of))] }
	var text strings.Builder
	for i := range 40 * s.days {
		fmt.Fprintf(&text, "192.0.2.%d - - [%s:12:00:00 +0000] \"GET %s HTTP/1.1\" %s 100 \"%s\" \"%s\"\n", s.rng.IntN(50),
			(s.first + analytics.Date(i/40)).Time().Format("02/Jan/2006"), pick("/a", "/b", "/c", "/d.md", "/a.css"),
			pick("200", "200", "304", "404"), pick("-", "https://chatgpt.com/", "https://www.google.com/",
				"https://other.example/"), pick(agents...))
	}
	path := filepath.Join(s.TempDir(), "access.log")
	s.ok(os.WriteFile(path, []byte(text.String()), 0o600))
	rules, err := count.ParseRules(count.Settings{LogFormat: "auto"}, time.Now)
	s.ok(err)
	_, err = rules.Keep(s.Context(), []string{path}, count.Options{Now: s.first + analytics.Date(s.days)}, s.store)
	s.ok(err)
}

// add adds a view of a day by a new reader, with evidence.
func (s *treeSite) add(day analytics.Date) {
	s.Helper()
	projects := []string{"prj_site"}
	view := facts.View{Day: day, Agent: facts.Browser, Kind: facts.Human, Bytes: facts.Unsaid}
	_, err := s.store.NewIdentifier(projects, day.Time).Identify(&view, []byte("somebody"))
	s.ok(err)
	s.ok(s.store.Commit(s.Context(), facts.Batch{Projects: projects, Views: []facts.View{view},
		Shown: []facts.Shown{{Readers: view.Readers, Day: day}}}))
}

// export runs the command.
func (s *treeSite) export(from, to analytics.Date, more ...string) error {
	c := console.New(config.Build{}, io.Discard, io.Discard, time.Now)
	cmd := Command(&c)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"export", "--from", from.String(), "--to", to.String(), s.tree}, more...))
	return cmd.ExecuteContext(s.Context())
}

// both exports all days in both numberings.
func (s *treeSite) both() {
	s.Helper()
	end := s.first + analytics.Date(s.days)
	s.ok(errors.Join(s.export(s.first, end), s.export(s.first, end, "--epoch", "previous")))
}

// files returns the paths of the files for a window that the manifest of its epoch names.
func (s *treeSite) files(w analytics.Window) (factFiles, evidence []string) {
	s.Helper()
	dir := "facts/v1/p=prj_site/epoch=" + facts.EpochOf(w.From).From().String()[:7]
	store, err := filestore.New(s.tree)
	s.ok(err)
	t := tree{to: store}
	all, err := t.manifest(s.Context(), dir)
	s.ok(err)
	for _, f := range all {
		path := filepath.Join(s.tree, dir, f.File)
		_, err := os.Stat(path)
		s.ok(err)
		switch {
		case f.Numbering != all[0].Numbering:
			s.Fatalf("two numberings: %+v, %+v", f, all[0])
		case f.Kind == "evidence" && f.Day < w.To:
			evidence = append(evidence, path)
		case f.Kind == "facts" && f.Day >= w.From && f.Day < w.To:
			factFiles = append(factFiles, path)
		}
	}
	return factFiles, evidence
}

// treeSQL asks for the reports visitors, agents and sources of windows nr in words that all engines know.
const treeSQL = `WITH w AS (SELECT nr, reader, path, audience, source, requests, markdown, shown,
	CASE WHEN agent <> '' THEN agent WHEN audience = 'ai' THEN 'unnamed' WHEN shown THEN 'browser' ELSE 'unconfirmed' END
	AS agent FROM (SELECT *, (nr, reader) IN (SELECT nr, reader FROM EVIDENCE) AS shown FROM FACTS) AS f)
SELECT nr, 'visitors claimed' AS name, count(DISTINCT CASE WHEN audience = 'human' THEN reader END) AS a,
	count(DISTINCT CASE WHEN audience = 'ai' THEN reader END) AS b,
	count(DISTINCT CASE WHEN audience <> '' THEN reader END) AS c FROM w GROUP BY nr
UNION ALL SELECT nr, 'visitors confirmed', count(DISTINCT CASE WHEN audience = 'human' AND shown THEN reader END),
	count(DISTINCT CASE WHEN audience = 'ai' THEN reader END),
	count(DISTINCT CASE WHEN audience = 'ai' OR audience = 'human' AND shown THEN reader END) FROM w GROUP BY nr
UNION ALL SELECT nr, concat('page ', path), count(DISTINCT CASE WHEN audience = 'human' THEN reader END),
	count(DISTINCT CASE WHEN audience = 'ai' THEN reader END), count(DISTINCT reader)
	FROM w WHERE audience <> '' GROUP BY nr, path
UNION ALL SELECT nr, concat('agent ', agent, ' ', audience), count(DISTINCT reader), sum(requests), sum(markdown)
	FROM w GROUP BY nr, agent, audience
UNION ALL SELECT nr, concat('source ', source, ' ', agent), count(DISTINCT reader), sum(requests), 0
	FROM w WHERE audience = 'human' GROUP BY nr, source, agent`

// answer is what the API says of a window, as treeSQL writes it.
func (s *treeSite) answer(w analytics.Window) string {
	s.Helper()
	var rows []string
	add := func(name string, a, b, c int64) { rows = append(rows, fmt.Sprintf("%s|%d|%d|%d", name, a, b, c)) }
	for _, mode := range []analytics.Humans{analytics.Claimed, analytics.Confirmed} {
		a, err := s.store.CountVisitors(s.Context(), "prj_site", w.From, w.To, mode)
		s.ok(err)
		add("visitors "+string(mode), a.Totals.Human, a.Totals.AI, a.Totals.Total)
		for _, r := range a.Rows {
			if mode == analytics.Claimed {
				add("page "+r.Path, r.Human, r.AI, r.Total)
			}
		}
	}
	agents, err := s.store.CountAgents(s.Context(), "prj_site", w.From, w.To, analytics.Claimed)
	s.ok(err)
	for _, r := range agents.Totals {
		add("agent "+r.Agent+" "+strings.TrimSuffix(string(r.Audience), "neither"), r.Visitors, r.Requests, r.Markdown)
	}
	sources, err := s.store.CountSources(s.Context(), "prj_site", w.From, w.To, analytics.Claimed)
	s.ok(err)
	for _, r := range sources.Totals {
		add("source "+r.Source+" "+r.Agent, r.Visitors, r.Requests, 0)
	}
	slices.Sort(rows)
	return strings.Join(rows, "\n")
}

// TestTreeOnEngines: of random windows, over borders of months too, three engines count in a tree what the API answers,
// also after an epoch was closed and its days were exported again. Spark is asked once, for all windows.
func TestTreeOnEngines(t *testing.T) {
	s := newTreeSite(t)
	s.both()
	s.ok(s.store.CloseEpoch(t.Context(), "prj_site", facts.EpochOf(s.first)))
	s.ok(s.export(s.first+50, s.first+51)) // of another epoch
	const windows = 60
	from := func(form string, files []string) string {
		dir := filepath.Dir(files[0])
		return strings.NewReplacer("DIR", dir, "FILES", strings.Join(files, "', '"),
			"NAMES", strings.ReplaceAll(strings.Join(files, ","), dir+"/", "")).Replace(form)
	}
	var asked []analytics.Window
	var want, duckDB, clickHouse, spark []string
	for n := range windows {
		w := analytics.Window{From: s.first + analytics.Date(s.rng.IntN(s.days-30))}
		w.To = w.From + 1 + analytics.Date(s.rng.IntN(29))
		asked, want = append(asked, w), append(want, s.answer(w))
		factFiles, evidence := s.files(w)
		for form, sql := range map[string]*[]string{"(SELECT NUMBER AS nr, * FROM read_parquet(['FILES']))": &duckDB,
			"(SELECT NUMBER AS nr, * FROM file('DIR/{NAMES}', 'Parquet'))": &clickHouse} {
			form = strings.Replace(form, "NUMBER", fmt.Sprint(n), 1)
			*sql = append(*sql, strings.NewReplacer("EVIDENCE", from(form, evidence), "FACTS", from(form, factFiles)).Replace(treeSQL))
		}
		spark = append(spark, fmt.Sprintf("(%d, %d, '%s', '%s')", n, facts.EpochOf(w.From), w.From, w.To))
	}
	compare := func(engine string, answers ...[]string) {
		t.Helper()
		rows := map[string][]string{}
		for _, row := range slices.Concat(answers...) {
			n, row, _ := strings.Cut(row, "|")
			rows[n] = append(rows[n], row)
		}
		for i, w := range asked {
			got := rows[fmt.Sprint(i)]
			slices.Sort(got)
			if diff := gocmp.Diff(want[i], strings.Join(got, "\n")); diff != "" {
				t.Errorf("%s, %s (-API +engine): %s", engine, w, diff)
			}
		}
	}
	server := engines.RunEngine26(t)
	var answers [][]string
	for _, question := range clickHouse {
		answer, err := server.Exec(t.Context(), question)
		s.ok(err)
		answers = append(answers, strings.Split(strings.ReplaceAll(strings.TrimSpace(answer), "\t", "|"), "\n"))
	}
	compare("ClickHouse", answers...)
	query := func(reader engines.DeltaReader, sql ...string) (answers []string) {
		t.Helper()
		all, err := reader.Query(t.Context(), t.TempDir(), nil, sql...)
		engines.Need(t, err)
		for _, answer := range all {
			for _, row := range answer.Rows {
				answers = append(answers, strings.Join(row, "|"))
			}
		}
		return answers
	}
	compare("DuckDB", query(engines.DuckDB, duckDB...))
	if testing.Short() {
		return
	}
	// The files of an epoch, and which of their rows belong to which window.
	var factFiles, evidence []string
	for epoch := facts.EpochOf(s.first); epoch <= facts.EpochOf(s.first+analytics.Date(s.days)); epoch++ {
		f, e := s.files(analytics.Window{From: epoch.From(), To: epoch.To()})
		form := fmt.Sprintf("SELECT %d AS epoch, * FROM parquet.`DIR/{NAMES}`", epoch)
		factFiles, evidence = append(factFiles, from(form, f)), append(evidence, from(form, e))
	}
	of := func(files []string, on string) string {
		return "(SELECT * FROM (" + strings.Join(files, " UNION ALL ") + ") JOIN (VALUES " + strings.Join(spark, ", ") +
			" AS w (nr, of, first, end)) ON epoch = of AND " + on + ")"
	}
	compare("Spark", query(engines.Spark, strings.NewReplacer("EVIDENCE", of(evidence, "day < end"),
		"FACTS", of(factFiles, "day >= first AND day < end")).Replace(treeSQL)))
}

// TestTreeInBucket: a tree in a bucket has the files of a tree in a directory, also after a day has changed and an epoch was
// closed, and an engine counts there what the API answers.
func TestTreeInBucket(t *testing.T) {
	s := newTreeSite(t)
	server := engines.RunS3(t)
	s.ok(server.CreateBucket(t.Context(), "lake"))
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	directory, bucket := s.tree, fmt.Sprintf("s3://lake/site?region=%s&endpoint=%s", server.Region, server.Endpoint)
	contents := func(tree string) map[string]string {
		t.Helper()
		store, err := filestore.New(tree)
		s.ok(err)
		all := map[string]string{}
		s.ok(store.List(t.Context(), "facts", "", func(name string) { all[name] = "" }))
		for name := range all {
			f, err := store.OpenWhole(t.Context(), name)
			s.ok(err)
			text, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
			s.ok(errors.Join(err, f.Close()))
			all[name] = string(text)
		}
		s.ok(store.Close())
		return all
	}
	changed := s.first + 40
	for round := range 2 {
		if round > 0 {
			s.add(changed)
			s.ok(s.store.CloseEpoch(t.Context(), "prj_site", facts.EpochOf(s.first)))
		}
		for _, s.tree = range []string{bucket, directory} {
			s.both()
		}
		if want, got := contents(directory), contents(bucket); len(want) < s.days || !maps.Equal(got, want) {
			t.Fatalf("%d objects, or others than the %d files", len(got), len(want))
		}
	}
	w := analytics.Window{From: changed - 10, To: changed + 10}
	factFiles, evidence := s.files(w)
	object := func(files []string) string {
		url := server.Endpoint + "/lake/site" + strings.TrimPrefix(filepath.Dir(files[0]), directory) + "/{"
		for i, file := range files {
			files[i] = filepath.Base(file)
		}
		return fmt.Sprintf("(SELECT 0 AS nr, * FROM s3('%s}', '%s', '%s', 'Parquet'))", url+strings.Join(files, ","),
			server.AccessKey, server.SecretKey)
	}
	answer, err := engines.RunEngine26(t).Exec(t.Context(),
		strings.NewReplacer("EVIDENCE", object(evidence), "FACTS", object(factFiles)).Replace(treeSQL))
	s.ok(err)
	rows := strings.Split(strings.ReplaceAll(strings.ReplaceAll("\n"+strings.TrimSpace(answer), "\n0\t", "\n"), "\t", "|"), "\n")[1:]
	slices.Sort(rows)
	if diff := gocmp.Diff(s.answer(w), strings.Join(rows, "\n")); diff != "" {
		t.Errorf("(-API +engine): %s", diff)
	}
}

// present returns the files of the tree, by name.
func (s *treeSite) present() (all []string) {
	s.Helper()
	s.ok(filepath.WalkDir(s.tree, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, s.tree))
		}
		return err
	}))
	return all
}

// TestTreeAgain: an export again writes the days that changed alone, a closed epoch is written whole, two runs do not
// work at once, no file is left that no manifest names, and what the site no longer keeps stays.
func TestTreeAgain(t *testing.T) {
	s := newTreeSite(t)
	s.both()
	before := s.present()
	s.both()
	if diff := gocmp.Diff(before, s.present()); diff != "" {
		t.Errorf("without a change: %s", diff)
	}
	changed := s.first + 40
	s.add(changed)
	s.both()
	after := s.present()
	for _, file := range after {
		if !slices.Contains(before, file) && !strings.Contains(file, changed.String()) {
			t.Errorf("written again: %s", file)
		}
	}
	if len(after) != len(before) || slices.Equal(after, before) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
	release, err := s.store.LockExport()
	s.ok(err)
	if err := s.export(s.first, s.first+1); !errors.Is(err, ErrLocked) {
		t.Errorf("beside another: %v", err)
	}
	s.ok(release())
	s.ok(s.store.CloseEpoch(t.Context(), "prj_site", facts.EpochOf(changed)))
	s.ok(s.export(s.first, s.first+1)) // of another epoch
	for _, file := range after {
		if strings.Contains(file, "epoch=2026-09/n=") && slices.Contains(s.present(), file) {
			t.Errorf("of the former numbering: %s", file)
		}
	}
	if len(s.present()) != len(after) {
		t.Errorf("%d files, %d before the epoch was closed", len(s.present()), len(after))
	}
	before = s.present()
	s.ok(s.store.DropBefore(t.Context(), facts.EpochOf(changed+20).From()))
	s.both()
	if diff := gocmp.Diff(before, s.present()); diff != "" {
		t.Errorf("after the end of the retention: %s", diff)
	}
}

// TestTreeOfAnother: a site whose directory lacks days of the tree changes nothing of them.
func TestTreeOfAnother(t *testing.T) {
	s := newTreeSite(t)
	s.both()
	before := s.present()
	dir := filepath.Join(t.TempDir(), "site")
	t.Setenv("DOCGAUGE_SITE_DIR", dir)
	store, err := facts.Open(dir)
	s.ok(err)
	s.store = store
	for _, has := range []string{"nothing", "one of its days"} {
		if err := s.export(s.first+90, s.first+91); err == nil || !strings.Contains(err.Error(), "another site's") {
			t.Errorf("%s: %v", has, err)
		}
		if diff := gocmp.Diff(before, s.present()); diff != "" {
			t.Errorf("%s (-before +now): %s", has, diff)
		}
		s.add(s.first)
	}
	s.ok(store.Close())
}

// failing is a store of which only so many changes succeed.
type failing struct {
	filestore.Store
	left int
}

var errKilled = errors.New("killed")

func (f *failing) Publish(ctx context.Context, staged, name string) error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return f.Store.Publish(ctx, staged, name)
}

func (f *failing) Remove(ctx context.Context, name string) error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return f.Store.Remove(ctx, name)
}

// TestTreeKilled: wherever a run ends, the manifest names whole files of one numbering, with the numbers of before or
// after it; the next run completes it.
func TestTreeKilled(t *testing.T) {
	s := newTreeSite(t)
	month := facts.EpochOf(s.first + 40)
	w := analytics.Window{From: month.From(), To: month.From() + 5}
	s.ok(s.export(w.From, w.To))
	s.ok(s.store.CloseEpoch(t.Context(), "prj_site", month))
	former, _ := s.files(w)
	place, err := filestore.New(s.tree)
	s.ok(err)
	for changes := 0; ; changes++ {
		run := tree{store: s.store, to: &failing{place, changes}, project: "prj_site"}
		err := run.write(t.Context(), month, w)
		named, _ := s.files(w)
		if len(named) != len(former) {
			t.Fatalf("after %d changes: %d files, want %d", changes, len(named), len(former))
		}
		if err == nil {
			if slices.Equal(named, former) || changes < 5 {
				t.Errorf("%d changes sufficed", changes)
			}
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	for _, file := range s.present() {
		if strings.HasSuffix(filepath.Dir(former[0]), filepath.Dir(file)) {
			t.Errorf("left: %s", file)
		}
	}
}
