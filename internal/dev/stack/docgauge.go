package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// firstSettle is DOCGAUGE_SETTLE of the first export. It is longer than that of
// serve, so that serve finds windows to read once more, as it would after some
// days.
const firstSettle = 8 * 24 * time.Hour

// told finds what the sandbox prints, export NAME=VALUE.
var told = regexp.MustCompile(`(?m)^export (DOCGAUGE_[A-Z_]+=\S+)$`)

// startSandbox starts the service. Every sixtieth request brings one more
// visitor of yesterday, so that numbers change after they were read.
func (s *Stack) startSandbox(context.Context) (err error) {
	args := []string{s.options.Binary, "sandbox", "--listen=127.0.0.1:0", "--data=" + s.path("service"),
		"--project=" + strings.Join(Projects, ","), "--pages=500", "--drift-every=60", "--agent-duration=1s"}
	if s.repository != "" {
		args = append(args, "--repo="+s.repository, "--agent-cmd=sh "+s.path("agent.sh"))
	}
	if err := os.MkdirAll(s.path("service"), 0o700); err != nil {
		return err
	}
	output := s.path("sandbox", "sandbox.out")
	s.sandbox, err = engines.StartCommand(s.path("sandbox"), "sandbox", args, nil, func(context.Context) bool {
		text, _ := os.ReadFile(output)
		return len(told.FindAll(text, -1)) == 3
	})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, s.sandbox.Stop)
	return s.readTold(output)
}

// readTold takes what the sandbox said for the environment of docgauge.
func (s *Stack) readTold(output string) error {
	text, err := os.ReadFile(output)
	if err != nil {
		return err
	}
	// What the person has set is not for the stack; an empty variable is an unset one.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "DOCGAUGE_") {
			s.environment = append(s.environment, name+"=")
		}
	}
	for _, found := range told.FindAllStringSubmatch(string(text), -1) {
		s.environment = append(s.environment, found[1])
		if url, ok := strings.CutPrefix(found[1], "DOCGAUGE_BASE_URL="); ok {
			s.API = url
		}
	}
	s.environment = append(s.environment, s.settings(time.Now().UTC())...)
	return nil
}

// settings are those of every docgauge of the stack.
func (s *Stack) settings(now time.Time) []string {
	return []string{
		"DOCGAUGE_LISTEN_ADDRESS=" + strings.TrimPrefix(s.URL, "http://"),
		"DOCGAUGE_STATE_DIR=" + s.path("state"),
		"DOCGAUGE_PARQUET_URL=" + s.path("data"),
		"DOCGAUGE_SINKS=parquet",
		"DOCGAUGE_SINCE=" + twoMonths(now).Format(time.DateOnly),
		"DOCGAUGE_BUDGET=5000",
		"DOCGAUGE_OPEN_WINDOWS=day,week,month",
		"DOCGAUGE_API_KEY_EXPIRES=" + now.AddDate(0, 0, 60).Format(time.DateOnly),
		"DOCGAUGE_SCHEDULE=* * * * *",
		"DOCGAUGE_POLL_INTERVAL=1s",
		"DOCGAUGE_PROMPTS_DIR=" + s.path("prompts"),
		"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit",
	}
}

// twoMonths is the beginning of the last two complete months: the newest month
// has one before it.
func twoMonths(now time.Time) time.Time {
	return time.Date(now.Year(), now.Month()-2, 1, 0, 0, 0, 0, time.UTC)
}

// startClickHouse lets docgauge write there too.
func (s *Stack) startClickHouse(context.Context) error {
	server, err := engines.StartClickHouse(s.path("clickhouse"))
	if err != nil {
		return s.without(err)
	}
	s.ClickHouse = server
	s.stops = append(s.stops, server.Stop)
	s.environment = append(s.environment, "DOCGAUGE_SINKS=parquet,clickhouse", "DOCGAUGE_CLICKHOUSE_DSN="+server.DSN("default"))
	return nil
}

// export fills the sinks, and reads yesterday once more, which has more
// visitors by then.
func (s *Stack) export(ctx context.Context) error {
	settle := "DOCGAUGE_SETTLE=" + firstSettle.String()
	if _, err := s.docgauge(ctx, []string{settle}, "export"); err != nil {
		return err
	}
	today := time.Now().UTC()
	yesterday := today.AddDate(0, 0, -1)
	_, err := s.docgauge(ctx, []string{settle}, "export", "--from="+yesterday.Format(time.DateOnly), "--to="+today.Format(time.DateOnly))
	return err
}

// docgauge runs a command to its end and returns its standard output.
func (s *Stack) docgauge(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.options.Binary, args...)
	cmd.Dir, cmd.Env = s.options.Dir, append(append(os.Environ(), s.environment...), env...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("docgauge %s: %w: %s", args[0], err, said.String())
	}
	return out, nil
}

// startServe starts the daemon, which exports at once.
func (s *Stack) startServe(context.Context) (err error) {
	argv := []string{s.options.Binary, "serve", "--once-at-start"}
	s.serve, err = engines.StartCommand(s.path("serve"), "serve", argv, s.environment, func(ctx context.Context) bool {
		_, err := get(ctx, s.URL+"/healthz")
		return err == nil
	})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, s.serve.Stop)
	return nil
}
