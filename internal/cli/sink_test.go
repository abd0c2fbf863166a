package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestOneSinkMore builds docgauge with one more sink, echo: a package, one value of config.SinkKinds, and one setting.
// Then it looks for echo in every place that has the other sinks.
func TestOneSinkMore(t *testing.T) {
	engines.Long(t)
	t.Parallel()
	const kinds, settings, table = "internal/config/sinks.go", "internal/config/settings.go", "var SinkKinds = []SinkKind{\n"
	imports := withLine(t, kinds, "import (", "\t\"github.com/docgauge/docgauge/sinks/echo\"\n")
	binary := builtFrom(t, map[string]string{
		"sinks/echo/echo.go": echoSink,
		kinds:                strings.Replace(imports, table, table+echoKind, 1),
		settings:             withLine(t, settings, "\tPostgresDSN ", echoSetting),
	})
	service := testbed.NewService(t, sandbox.Config{Seed: 1})
	p := placeFor(t, service, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(3).String(),
		"DOCGAUGE_WINDOWS=day", "DOCGAUGE_OPEN_WINDOWS=", "DOCGAUGE_SINKS=parquet,echo")
	try := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir, cmd.Env = p.dir, p.env
		out, err := cmd.CombinedOutput()
		return strings.Join(strings.Fields(string(out)), " "), err // as wide as it may be
	}
	has := func(text string, args ...string) {
		t.Helper()
		if out, err := try(args...); err != nil || !strings.Contains(out, text) {
			t.Errorf("%s: want %q and no error: %v\n%.4000s", strings.Join(args, " "), text, err, out)
		}
	}
	fails := func(text string, args ...string) {
		t.Helper()
		if out, err := try(args...); err == nil || !strings.Contains(out, text) {
			t.Errorf("%s: want %q and an error: %v\n%.4000s", strings.Join(args, " "), text, err, out)
		}
	}
	files := func(pattern string) []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(p.dir, pattern))
		check(t, err)
		return all
	}
	const windows = "echo/visitors/v1/*/*/*/*.parquet"
	has("echo, parquet, delta, clickhouse, postgres", "help", "configuration")
	has("DOCGAUGE_ECHO_URL", "help", "configuration", "--all")
	has("to Echo, Parquet, Delta Lake, ClickHouse or PostgreSQL, ", "--help")
	has("DOCGAUGE_ECHO_URL", "config")
	has("echo, parquet, delta, clickhouse or postgres", "load", "--help")
	fails("echo, parquet, delta, clickhouse or postgres", "load")
	fails("echo, parquet, delta, clickhouse or postgres", "load", "--sink", "other")
	has("echo ", "__complete", "load", "--sink", "")
	has("echo ", "__complete", "verify", "--sink", "")
	has("sink echo", "check")
	has("3 windows", "export")
	if all := files(windows); len(all) != 3 {
		t.Fatalf("echo has %v", all)
	}
	has("\"echo\"", "status", "--json")

	check(t, os.Remove(files(windows)[0]))
	fails("echo", "verify")
	has("sink echo lacks 1 window", "status", "--rebuild")
	has("; 0 findings left", "verify", "--repair")

	// The state comes from an older backup: echo's marker alone shows it.
	check(t, os.CopyFS(filepath.Join(p.dir, "backup"), os.DirFS(filepath.Join(p.dir, "state"))))
	has("success: 0 windows", "export")
	check(t, os.RemoveAll(filepath.Join(p.dir, "state")))
	check(t, os.Rename(filepath.Join(p.dir, "backup"), filepath.Join(p.dir, "state")))
	check(t, os.Remove(files("data/_docgauge_*.json")[0]))
	has("older than the data in the sinks", "export")

	// The place is not mounted.
	check(t, os.Rename(filepath.Join(p.dir, "echo"), filepath.Join(p.dir, "away")))
	fails("echo sink: ", "export")
	fails("echo sink: ", "check")

	has("loaded 3 windows", "load", "--sink", "echo")
	if all := files(windows); len(all) != 3 {
		t.Errorf("echo has %v", all)
	}
	has("week in Echo, read by DuckDB:", "demo", "--dir", filepath.Join(p.dir, "demo"))
	if all := files("demo/" + windows); len(all) == 0 {
		t.Error("echo has nothing of the demo")
	}

	s, err := startProgram(binary, p.dir, filepath.Join(p.dir, "serve.log"), p.env)
	check(t, err)
	t.Cleanup(s.kill)
	metrics, n := s.metrics(t), 0
	for name := range metrics {
		if other := strings.ReplaceAll(name, `sink="parquet"`, `sink="echo"`); other != name {
			if _, is := metrics[other]; !is {
				t.Errorf("metrics: no %s", other)
			}
			n++
		}
	}
	if n == 0 || !strings.Contains(s.page(t, "/status"), "echo") {
		t.Errorf("%d series by sink, or no sink on the page", n)
	}
	p.env = append(p.env, "DOCGAUGE_ECHO_URL=data")
	fails("is the same place as", "config")
}

// echoSink is a sink that writes as Parquet does.
const echoSink = `package echo

import (
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks/parquet"
)

type Sink struct{ *parquet.Sink }

func (Sink) Name() string { return "echo" }

func New(url string, reports ...analytics.Report) (Sink, error) {
	s, err := parquet.New(url, reports...)
	return Sink{s}, err
}
`

const echoKind = `	{
		"echo", "Echo", Files, []string{"DOCGAUGE_ECHO_URL"},
		func(c Config) (sinks.Sink, error) { return echo.New(c.EchoURL, c.Reports...) },
		1, func(place, table string) string { return "'" + place + table + "'" },
	},
`

const echoSetting = "\tEchoURL string `envconfig:\"DOCGAUGE_ECHO_URL\" default:\"./echo\" desc:\"root of echo\"`\n"
