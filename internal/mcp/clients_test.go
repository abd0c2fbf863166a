package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// asked has a question for each tool about a demonstration.
var asked = map[string]object{
	"projects": {}, "window": {"limit": 3}, "compare": {"limit": 2, "by": "ai"},
	"page_history": {"path": "/introduction", "limit": 3},
	"coverage":     {}, "plan": {}, "budget": {}, "jobs": {}, "outcomes": {},
}

// unasked is the number of tools about agents and other reports, which a demonstration has no windows of.
const unasked = 4

// told is in the answer about a demonstration, for every client.
var told = map[string]string{
	"projects": `"project":"prj_sandbox"`, "window": `"path":"/introduction"`, "compare": `"rising":{"count":`,
	"page_history": `"path":"/introduction"`,
	"coverage":     `"windows_known":90`, "plan": `"windows":[`, "budget": `"analytics":{`,
	"jobs":     `"prompt":"improve-the-introduction.md"`,
	"outcomes": `"verdict":"more readers"`,
}

// demonstration is a served demonstration: the URL, and a file with the settings of other
// commands. That has neither a URL of the service nor a key.
func demonstration(t *testing.T, env ...string) (url, settings string) {
	t.Helper()
	dir := t.TempDir()
	c, err := engines.StartCommand(dir, "demo", []string{engines.Docgauge(t), "demo", "--serve", "--dir",
		filepath.Join(dir, "demo")},
		append([]string{"DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:0"}, env...), nil)
	must(t, err)
	t.Cleanup(func() { c.Kill() })
	page := regexp.MustCompile(`Readers      (\S+)/\n`)
	for end := time.Now().Add(2 * time.Minute); ; {
		said, err := os.ReadFile(c.Output())
		if found := page.FindSubmatch(said); found != nil {
			url = string(found[1])
			break
		}
		select {
		case <-c.Ended():
			t.Fatalf("%v\n%s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("no address in\n%s", said)
		}
	}
	settings = filepath.Join(dir, "docgauge.env")
	const variables = "DOCGAUGE_STATE_DIR=%[1]s/state\nDOCGAUGE_PARQUET_URL=%[1]s/data\nDOCGAUGE_LOG_LEVEL=debug\n"
	lines := fmt.Sprintf(variables, filepath.Join(dir, "demo"))
	must(t, os.WriteFile(settings, []byte(lines), 0o600))
	return url, settings
}

// command is docgauge mcp, in a new directory.
func command(t *testing.T, arguments ...string) *exec.Cmd {
	cmd := exec.Command(engines.Docgauge(t), arguments...)
	cmd.Dir = t.TempDir()
	return cmd
}

// TestBinary: the real program beside the serve that exports, over its pipes and over HTTP,
// asked by the library's client, the npm inspector and the PyPI client.
func TestBinary(t *testing.T) {
	t.Parallel()
	url, settings := demonstration(t)
	for name, transport := range map[string]func(*exec.Cmd) sdk.Transport{
		"stdio": func(cmd *exec.Cmd) sdk.Transport { return &sdk.CommandTransport{Command: cmd} },
		"http": func(*exec.Cmd) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: url + "/mcp", DisableStandaloneSSE: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			cmd := command(t, "--env-file", settings, "mcp")
			cmd.Stderr = &logged
			s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
				transport(cmd), nil)
			must(t, err)
			for tool, arguments := range asked {
				if _, text, failed := ask(t, s, tool, arguments); failed || !strings.Contains(text, told[tool]) {
					t.Errorf("%s: %s", tool, text)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if name == "stdio" && !strings.Contains(logged.String(), "question answered") {
				t.Errorf("not in the log: %s", &logged)
			}
		})
	}
	t.Run("inspector", func(t *testing.T) { inspector(t, url, settings) })
	t.Run("pypi", func(t *testing.T) { pypi(t, url, settings) })
}

// client is a program below .tools/mcp.
func client(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../.tools/mcp", path))
	if err == nil {
		if _, err = os.Stat(path); err != nil {
			err = engines.Missing{Engine: path, Install: "make engines"}
		}
	}
	engines.Need(t, err)
	return path
}

func run(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", cmd, err, &said, out)
	}
	return out
}

func inspector(t *testing.T, url, settings string) {
	program := client(t, "npm/node_modules/.bin/mcp-inspector")
	var major int
	if _, err := fmt.Sscanf(string(run(t, exec.Command("node", "--version"))), "v%d.", &major); err != nil ||
		major < 20 {
		engines.Need(t, engines.Missing{Engine: "Node 20", Install: "npm install --global n && n 22"})
	}
	for name, server := range map[string][]string{"stdio": {engines.Docgauge(t), "--env-file", settings, "mcp"},
		"http": {url + "/mcp", "--transport", "http"}} {
		inspect := func(question ...string) []byte {
			return run(t, exec.Command(program, append(append([]string{"--cli"}, server...), question...)...))
		}
		var listed struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(inspect("--method", "tools/list"), &listed); err != nil ||
			len(listed.Tools) != len(asked)+unasked {
			t.Errorf("%s: %v %v", name, listed, err)
		}
		var answer struct {
			StructuredContent struct{ Pages []struct{ Path string } }
			IsError           bool
		}
		err := json.Unmarshal(inspect("--method", "tools/call", "--tool-name", "window", "--tool-arg", "limit=2"),
			&answer)
		if err != nil || answer.IsError || len(answer.StructuredContent.Pages) != 2 {
			t.Errorf("%s: %+v %v", name, answer, err)
		}
		if out := inspect("--method", "prompts/list"); !bytes.Contains(out, []byte("weekly_review")) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func pypi(t *testing.T, url, settings string) {
	python := client(t, "bin/python")
	questions, err := json.Marshal(asked)
	must(t, err)
	for name, server := range map[string][]string{"stdio": {engines.Docgauge(t), "--env-file", settings, "mcp"},
		"http": {url + "/mcp"}} {
		cmd := exec.Command(python, append([]string{"testdata/client.py"}, server...)...)
		cmd.Stdin = bytes.NewReader(questions)
		var said struct {
			Tools    []string
			ReadOnly bool `json:"read_only"`
			Prompts  []string
			Review   string
			Answers  map[string]struct {
				Failed bool
				Answer object
				Text   string
			}
		}
		must(t, json.Unmarshal(run(t, cmd), &said))
		if len(said.Tools) != len(asked)+unasked || !said.ReadOnly || len(said.Prompts) != 2 ||
			!strings.Contains(said.Review, "prj_sandbox") {
			t.Errorf("%s: %+v", name, said)
		}
		for tool := range asked {
			if a := said.Answers[tool]; a.Failed || len(a.Answer) == 0 || !strings.Contains(a.Text, told[tool]) {
				t.Errorf("%s: %s: %s", name, tool, a.Text)
			}
		}
	}
}

// TestGuardedServe: the web configuration covers /mcp; a browser's page, a GET and a body
// that is too long are refused.
func TestGuardedServe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web.yml")
	const hash = "$2a$04$/1KeK6hcXbYwA9IGA76BE.eZJZh0qUuzcTftY6r.EPV4I6tPpABnS" // of let-me-in
	must(t, os.WriteFile(file, []byte("basic_auth_users:\n  reader: "+hash+"\n"), 0o600))
	url, _ := demonstration(t, "DOCGAUGE_WEB_CONFIG_FILE="+file)
	for name, tc := range map[string]struct {
		method, password, origin, body string
		code                           int
	}{
		"no password":    {"POST", "", "", budget, 401},
		"wrong password": {"POST", "guess", "", budget, 401},
		"password":       {"POST", "let-me-in", "", budget, 200},
		"own page":       {"POST", "let-me-in", url, budget, 200},
		"other page":     {"POST", "let-me-in", "https://evil.example", budget, 403},
		"GET":            {"GET", "let-me-in", "", "", 405},
		"too long":       {"POST", "let-me-in", "", strings.Repeat(" ", maxMessage+1), 413},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, url+"/mcp", strings.NewReader(tc.body))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if tc.password != "" {
			req.SetBasicAuth("reader", tc.password)
		}
		if tc.origin != "" {
			req.Header.Set("Origin", tc.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tc.code {
			t.Errorf("%s: %d %s %v", name, resp.StatusCode, body, err)
		}
	}
}

// TestBinaryAlone: without a state, an archive or a client the program says so, and ends.
func TestBinaryAlone(t *testing.T) {
	t.Parallel()
	cmd := command(t, "mcp")
	cmd.Stdin = strings.NewReader(hello + "\n" + hello2 + "\nnonsense\n" + budget + "\n")
	var logged bytes.Buffer
	cmd.Stderr = &logged
	out, err := cmd.Output()
	if err != nil || strings.Count(string(out), "\n") != 3 ||
		!strings.Contains(string(out), "has no state: run `docgauge export` first") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not of the protocol: %s", line)
		}
	}

	// The client is killed in the middle of a question: nothing is left behind.
	cmd = command(t, "mcp")
	in, err := cmd.StdinPipe()
	must(t, err)
	answers, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	fmt.Fprintln(in, hello)
	if _, err := answers.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	answers.Close()
	fmt.Fprintln(in, hello2+"\n"+budget)
	in.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(cmd.Dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%v %v", entries, err)
	}

	bad := command(t, "mcp", "--allow-jobs")
	if out, err := bad.CombinedOutput(); bad.ProcessState.ExitCode() != 2 ||
		!strings.Contains(string(out), "DOCGAUGE_PROMPTS_DIR") {
		t.Errorf("%v %s", err, out)
	}
}

// TestRegistration: what docs/assistants.md says is JSON that starts docgauge mcp.
func TestRegistration(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/assistants.md")
	must(t, err)
	type server struct {
		Command, URL string
		Args         []string
	}
	started, asked := 0, 0
	for _, block := range regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllSubmatch(page, -1) {
		var file struct{ McpServers, Servers map[string]server }
		if err := json.Unmarshal(block[1], &file); err != nil {
			t.Errorf("%v in %s", err, block[1])
			continue
		}
		s := file.McpServers["docgauge"]
		if s.Command == "" && s.URL == "" {
			s = file.Servers["docgauge"]
		}
		if strings.HasSuffix(s.URL, "/mcp") {
			asked++
			continue
		}
		cmd := command(t, s.Args...)
		for i, arg := range cmd.Args {
			if strings.HasSuffix(arg, ".env") {
				cmd.Args[i] = filepath.Join(t.TempDir(), "mcp.env")
				lines := regexp.MustCompile("(?ms)^```\n(DOCGAUGE_.*?)^```").FindSubmatch(page)
				must(t, os.WriteFile(cmd.Args[i], lines[1], 0o600))
			}
		}
		cmd.Stdin = strings.NewReader(hello + "\n")
		if out := run(t, cmd); !bytes.Contains(out, []byte(`"name":"docgauge"`)) {
			t.Errorf("%s: %s", block[1], out)
		}
		started++
	}
	if started != 2 || asked != 1 {
		t.Errorf("%d started, %d over HTTP", started, asked)
	}
}
