package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	clijobs "github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/mcp"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
)

// notShown says why programs are not shown a field of a view, or any field of one: in the JSON of
// the commands, in /api/v1, in the answers to assistants.
var notShown = []struct{ fields, places, why string }{
	{"Counter.* Histogram.*", "json api mcp", "metrics alone have these"},
	{"Snapshot.At Snapshot.Version Snapshot.Revision Snapshot.Reload", "json api mcp", "about the process that serves"},
	{"Reload.* Sink.*", "json api mcp", "known to the process that serves; metrics and status page have them"},
	{"Snapshot.LastStart Snapshot.LastCompletion Snapshot.LastSuccess", "json api mcp", "follow from the runs"},
	{"Snapshot.NextRun", "json api mcp", "follows from the schedule"},
	{"Snapshot.Finish Snapshot.Asides Due.*", "json api mcp", "plan and status have the windows themselves"},
	{"Key.*", "json api mcp", "docgauge check has the keys"},
	{"Cap.* StateCount.* Review.* Queue.*", "json api mcp", "counts of the jobs, and settings"},
	{"Project.*", "json api mcp", "each row names its project"},
	{"Window.*", "json mcp", "read from the archive: docgauge top and the tool window"},
	{"Window.*", "api", "a row of /api/v1/pages for each page"},
	{"RowsWindow.*", "json api mcp", "read from the archive, all of them: docgauge top --by agent, /api/v1/agents"},
	{"Cell.*", "json mcp", "the gaps of a grid have what is missing"},
	{"Cell.*", "api", "a row of /api/v1/windows each"},
	{"Grid.* OpenWindow.* Run.* Budget.* Refused.*", "api", "not a list of numbers: metrics have them"},
	{"Budget.Name", "json mcp", "the name of the metric's label; the project says the same"},
	{"Outcome.Effects Merge.Pages", "api", "a row of /api/v1/outcomes for each effect"},
	{"Merge.Cost Cost.* Amount.*", "api", "the columns merge_cost and others of each row of a merge"},
	{"Merge.Problem", "api", "of merges without effects, and so without rows"},
	{"Effect.Days EffectDay.*", "api", "days are points of a chart: too many for a row"},
	{"Outcomes.* OutcomeSummary.* MeanChange.*", "api", "not a list of numbers: metrics have them"},
	{"Redirect.*", "api", "rows of /api/v1/outcomes are merges"},
	{"EffectDay.*", "mcp", "days are points of a chart: too many for an answer"},
	{"Job.* PullRequest.*", "json", "jobs list has the job as the journal stores it"},
	{"Job.Seq Job.Path Job.Firing Job.Try Job.Stalled", "api", "the columns of a table are stable"},
	{"PullRequest.Problem PullRequest.Review PullRequest.Checks PullRequest.FirstReview PullRequest.Files " +
		"PullRequest.Additions PullRequest.Deletions", "api", "the columns of a table are stable"},
	{"MissedPath.*", "api", "docgauge redirects and the tool redirects have all of them"},
	{"Job.Pull", "api", "its own columns, pr_state and others"},
}

// TestViewsAreShown: each field of the values that people are shown is in the JSON of a command, in
// /api/v1 and in an answer to assistants, or notShown has the reason.
func TestViewsAreShown(t *testing.T) {
	columns, answers := apiColumns(t), answerNames(t)
	commands := map[reflect.Type]bool{}
	for _, root := range []any{coverage.Status{}, clijobs.Listed{}, view.Outcomes{}, []redirects.Proposal{}} {
		views(reflect.TypeOf(root), commands)
	}
	endpoints := map[string]string{
		"Job": "/api/v1/jobs ", "PullRequest": "/api/v1/jobs pr_",
		"Outcome": "/api/v1/outcomes ", "Merge": "/api/v1/outcomes ", "Effect": "/api/v1/outcomes ",
	}
	toolOf := map[string]string{
		"Job": "jobs", "PullRequest": "jobs", "Grid": "coverage", "OpenWindow": "coverage", "Run": "coverage",
		"Refused": "coverage",
		"Budget":  "budget", "Outcome": "outcomes", "Merge": "outcomes", "Effect": "outcomes",
		"Outcomes": "outcomes", "Redirect": "outcomes", "OutcomeSummary": "outcomes", "MeanChange": "outcomes",
		"Cost": "outcomes", "Amount": "outcomes", "MissedPath": "redirects",
	}
	used := map[int]bool{}
	all := map[reflect.Type]bool{}
	views(reflect.TypeFor[view.Snapshot](), all)
	for v := range all {
		for _, f := range reflect.VisibleFields(v) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			shown := name != "" && name != "-"
			if len(f.Index) > 1 || f.Anonymous || !shown && all[element(f.Type)] {
				continue // its own fields are looked at
			}
			for place, has := range map[string]bool{
				"json": commands[v],
				"api":  columns[endpoints[v.Name()]+name],
				"mcp":  slices.Contains(answers[toolOf[v.Name()]], name),
			} {
				i := slices.IndexFunc(notShown, func(n struct{ fields, places, why string }) bool {
					fields := strings.Fields(n.fields)
					named := slices.Contains(fields, v.Name()+"."+f.Name) || slices.Contains(fields, v.Name()+".*")
					return named && slices.Contains(strings.Fields(n.places), place)
				})
				if i < 0 && (!shown || !has) {
					t.Errorf("%s.%s is not in %s, and nothing says why", v.Name(), f.Name, place)
				}
				if i >= 0 && shown && has && !strings.Contains(notShown[i].fields, v.Name()+".*") {
					t.Errorf("%s.%s is in %s, although: %s", v.Name(), f.Name, place, notShown[i].why)
				}
				if i >= 0 {
					used[i] = true
				}
			}
		}
	}
	if len(used) != len(notShown) {
		t.Errorf("only %d of %d reasons are about a field", len(used), len(notShown))
	}
}

// views adds the types that v is made of and that are shown: types of package view, and two that are stored in that
// form.
func views(v reflect.Type, found map[reflect.Type]bool) {
	v = element(v)
	if v.Kind() != reflect.Struct || found[v] || v == reflect.TypeFor[time.Time]() {
		return
	}
	stored := v == reflect.TypeFor[analytics.OpenWindow]() || v == reflect.TypeFor[analytics.Run]()
	if stored || v.PkgPath() == reflect.TypeFor[view.Job]().PkgPath() {
		found[v] = true
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.IsExported() {
			views(f.Type, found)
		}
	}
}

// element is the type that a pointer, a list or a map holds.
func element(v reflect.Type) reflect.Type {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		v = v.Elem()
	}
	return v
}

// needed are parameters without which a list is refused.
var needed = map[string]string{"/api/v1/agent_history": "&agent=a", "/api/v1/sources_history": "&source=a"}

// apiColumns are the columns of each table, as in "/api/v1/jobs state".
func apiColumns(t *testing.T) map[string]bool {
	columns := map[string]bool{}
	for path, handler := range apiLists() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"?format=csv"+needed[path], nil))
		names, err := csv.NewReader(w.Body).Read()
		check(t, err)
		for _, name := range names {
			columns[path+" "+name] = true
		}
	}
	return columns
}

// apiLists are the handlers of the lists of /api/v1 by path.
func apiLists() map[string]http.Handler {
	all := web.NewAPI(func() *view.Snapshot { return &view.Snapshot{} }, nil)
	delete(all, "/api/v1/") // it lists them
	return all
}

// askedAlike are the commands whose questions can be asked of /api/v1 and of assistants too: a list, tools, and the
// names that flags have there.
var askedAlike = []struct {
	command func(*Program) *cobra.Command
	list    string
	tools   []string
	names   map[string]map[string]string
	// others are the flags that ask another list and tool.
	others []askedElsewhere
}{
	{(*Program).topCommand, "/api/v1/pages", []string{"window", "compare"}, map[string]map[string]string{
		"mcp": {"window": "granularity", "number": "limit", "rising": "list", "falling": "list", "misses": "list",
			"source": "name"},
		"api": {"number": "limit", "json": "format", "csv": "format", "rising": "list", "falling": "list",
			"misses": "list"},
	}, []askedElsewhere{{"agent misses", "/api/v1/agents", "agents"}, {"source", "/api/v1/sources", "rows"}}},
	{(*Program).historyCommand, "/api/v1/history", []string{"page_history"}, map[string]map[string]string{
		"mcp": {"window": "granularity", "page": "path", "last": "limit"},
		"api": {"page": "path", "last": "limit", "since": "from", "json": "format", "csv": "format"},
	}, []askedElsewhere{{"agent", "/api/v1/agent_history", "agent_history"}, {"source", "/api/v1/sources_history", ""}}},
}

type askedElsewhere struct{ flags, list, tool string }

// notAsked says why a question that a command takes as a flag cannot be asked at another place.
var notAsked = []struct{ flags, places, why string }{
	{"archive", "api mcp", "a setting of the server"},
	{"json csv", "mcp", "assistants get JSON"},
	{"history:by", "api", "each report has a list"},
	{"history:by history:source", "mcp", "the tool rows answers one window at a time"},
}

// TestTopAndHistoryAreAskedAlike: each flag of top and history is a parameter of /api/v1 and an argument of the
// tools, or notAsked has the reason.
func TestTopAndHistoryAreAskedAlike(t *testing.T) {
	arguments, parameters := map[string][]string{}, parametersOf(t)
	for _, tool := range tools(t) {
		arguments[tool.Name] = slices.Collect(maps.Keys(tool.InputSchema.Properties))
	}
	used := map[string]bool{}
	for _, c := range askedAlike {
		cmd := c.command(&Program{})
		has := map[string][][]string{"api": {parameters[c.list]}}
		for _, tool := range c.tools {
			has["mcp"] = append(has["mcp"], arguments[tool])
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for place, has := range has {
				excused := slices.ContainsFunc(notAsked, func(n struct{ flags, places, why string }) bool {
					flags := strings.Fields(n.flags)
					return (slices.Contains(flags, f.Name) || slices.Contains(flags, cmd.Name()+":"+f.Name)) &&
						slices.Contains(strings.Fields(n.places), place)
				})
				name := cmp.Or(c.names[place][f.Name], f.Name)
				for _, o := range c.others {
					if slices.Contains(strings.Fields(o.flags), f.Name) {
						has = [][]string{map[string][]string{"api": parameters[o.list], "mcp": arguments[o.tool]}[place]}
					}
				}
				there := true
				for _, known := range has {
					there = there && slices.Contains(known, name)
				}
				if excused {
					used[f.Name+" "+place] = true
				}
				switch {
				case !there && !excused:
					t.Errorf("%s --%s cannot be asked of %s: add %s there, or the reason to notAsked",
						cmd.Name(), f.Name, place, name)
				case there && excused:
					t.Errorf("%s --%s can be asked of %s, although notAsked says why not", cmd.Name(), f.Name, place)
				}
			}
		})
	}
	want := 0
	for _, n := range notAsked {
		want += len(strings.Fields(n.flags)) * len(strings.Fields(n.places))
	}
	if len(used) != want {
		t.Errorf("only %d of %d excuses are about a flag", len(used), want)
	}
}

// TestQuestionsAreDocumented: the tables of docs/assistants.md and docs/sidecar.md have each argument of a tool
// and each parameter of /api/v1.
func TestQuestionsAreDocumented(t *testing.T) {
	row := func(page, name string) string {
		text, err := os.ReadFile(filepath.Join(repository, "docs", page))
		check(t, err)
		_, rest, found := strings.Cut(string(text), "\n| `"+name+"` |")
		if !found {
			t.Fatalf("docs/%s has no row for %s", page, name)
		}
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	for _, tool := range tools(t) {
		if tool.Name == "write_prompt" {
			continue
		}
		line := row("assistants.md", tool.Name)
		if strings.Contains(line, "as `window`") {
			line += row("assistants.md", "window")
		}
		for name := range tool.InputSchema.Properties {
			if !strings.Contains(line, "`"+name+"`") {
				t.Errorf("docs/assistants.md: the row of %s lacks the argument %s", tool.Name, name)
			}
		}
	}
	for path, names := range parametersOf(t) {
		line := row("sidecar.md", path)
		_, documented, _ := strings.Cut(line, " | ")
		for _, name := range names {
			if name != "format" && !strings.Contains(documented, "`"+name+"`") {
				t.Errorf("docs/sidecar.md: the row of %s lacks the parameter %s", path, name)
			}
		}
		for _, code := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(documented, -1) {
			if !slices.Contains(names, code[1]) {
				t.Errorf("docs/sidecar.md: %s does not take %s", path, code[1])
			}
		}
	}
}

// parametersOf are the parameters of each table, as the refusal of an unknown one lists them.
func parametersOf(t *testing.T) map[string][]string {
	all := map[string][]string{}
	for path, handler := range apiLists() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"?unknown=1", nil))
		var refused struct{ Error string }
		check(t, json.Unmarshal(w.Body.Bytes(), &refused))
		_, names, found := strings.Cut(refused.Error, ": want ")
		if !found {
			t.Fatalf("%s: %s", path, refused.Error)
		}
		all[path] = strings.Split(names, ", ")
	}
	return all
}

// tool is a tool for assistants.
type tool struct {
	Name         string
	InputSchema  struct{ Properties map[string]any }
	OutputSchema map[string]any
}

// tools lists the tools as assistants see them.
func tools(t *testing.T) []tool {
	h := mcp.Handler(mcp.Options{Config: config.Config{}, Log: slog.New(slog.DiscardHandler), Now: time.Now},
		func(*http.Request) bool { return true })
	const question = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(question))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer struct {
		Result struct{ Tools []tool }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Result.Tools) == 0 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return answer.Result.Tools
}

// answerNames are the JSON keys of the answers of each tool for assistants.
func answerNames(t *testing.T) map[string][]string {
	names := map[string][]string{}
	for _, tool := range tools(t) {
		var add func(schema any)
		add = func(schema any) {
			object, _ := schema.(map[string]any)
			properties, _ := object["properties"].(map[string]any)
			for name, property := range properties {
				names[tool.Name] = append(names[tool.Name], name)
				add(property)
			}
			if object["items"] != nil {
				add(object["items"])
			}
		}
		add(tool.OutputSchema)
	}
	return names
}

// mergesOnly are numbers for prompts that have no windows.
type mergesOnly struct {
	prompts.Numbers
	all view.Outcomes
}

func (n mergesOnly) Outcomes(context.Context, string) (view.Outcomes, error) { return n.all, nil }

// TestVerdictsAreShown: each place that shows outcomes has the same verdict on the same page, and the
// same summary.
func TestVerdictsAreShown(t *testing.T) {
	const project = "prj_a"
	outcomes := testbed.Outcomes(project)
	s := view.Snapshot{At: testbed.Now, Projects: []view.Project{{ID: project}}, Queue: &view.Queue{},
		Outcomes: outcomes}
	served := func(h http.Handler, path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}
	written := func(write func(io.Writer) error) string {
		var b bytes.Buffer
		check(t, write(&b))
		return b.String()
	}
	tables := func(page string) string {
		var texts []string
		for _, part := range regexp.MustCompile(`(?s)<table class="effects.*?</table>|<p class="summary">.*?</p>`).
			FindAllString(page, -1) {
			texts = append(texts, engines.VisibleText(part))
		}
		return strings.Join(texts, "\n")
	}
	current := func() *view.Snapshot { return &s }
	var values exporter.Values
	values.Publish(s)
	template := prompts.Prompt{ID: "a", Path: "a.md", Project: project, Template: true, Body: "[[ outcomes 9 ]]"}
	prompt, err := prompts.Render(t.Context(), template, testbed.Now, mergesOnly{all: outcomes})
	check(t, err)
	known := []view.Verdict{view.MoreReaders, view.FewerReaders, view.NoClearChange, view.TooEarly, view.NotEnoughData}
	sentence := outcomes.Summaries[0].Sentence()
	for _, place := range []struct {
		name, text string
		shown      []view.Verdict // the others are left out
		summary    string
	}{
		{"terminal", written(func(w io.Writer) error {
			return printOutcomes(w, outcomes, render.Wording{}, testbed.Now)
		}), known, sentence},
		{"CSV", written(func(w io.Writer) error { return outcomesCSV(w, outcomes.Merges) }), known, ""},
		{"JSON", written(func(w io.Writer) error { return render.JSON(w, outcomes) }), known, `"by_chance": 1.2`},
		{"report", tables(written(web.Report{Made: testbed.Now, State: &s, Projects: s.Projects}.Write)), known,
			sentence},
		{"status page", tables(served((&web.Site{Current: current}).Handlers()["/status"], "/status")),
			known[:4], sentence},
		{"metrics", served(values.Handler(), "/metrics?name[]=docgauge_agent_outcome_verdict"), known[:4], ""},
		{"API", served(web.NewAPI(current, nil)["/api/v1/outcomes"], "/api/v1/outcomes"), known, ""},
		{"assistants", written(func(w io.Writer) error {
			return json.NewEncoder(w).Encode(mcp.NewOutcomesAnswer(outcomes, 20))
		}), known, sentence},
		{"prompts", prompt.Text, known[:3], sentence},
	} {
		var want []string
		for _, o := range outcomes.Merges {
			for _, e := range o.Effects {
				if slices.Contains(place.shown, e.Verdict) {
					want = append(want, fmt.Sprintf("%s %s %s", e.Path, e.Audience, e.Verdict))
				}
			}
		}
		text := regexp.MustCompile(`(?s)"pages": ?\[.*?\]`).ReplaceAllString(place.text, "")
		text = regexp.MustCompile(`(audience="\w+")(.*)(path=".*?")`).ReplaceAllString(text, "$3$2$1")
		var got []string
		for _, row := range regexp.MustCompile(`(?is)(/(?:guides|sdks)/\w+)\b.*?\b(human|ai)\b.*?`+
			`(more readers|fewer readers|no clear change|too early|not enough data)`).FindAllStringSubmatch(text, -1) {
			got = append(got, fmt.Sprintf("%s %s %s", row[1], strings.ToLower(row[2]), row[3]))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) || !strings.Contains(text, place.summary) {
			t.Errorf("%s: %q, want %q and %q in\n%s", place.name, got, want, place.summary, place.text)
		}
	}
}
