package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// newcomer is a place without any setting.
func newcomer(t *testing.T, s *testbed.Service) place {
	p := placeFor(t, s, nil)
	p.env = slices.DeleteFunc(p.env, func(pair string) bool { return strings.HasPrefix(pair, "DOCGAUGE_") })
	return p
}

// TestInitOnTerminal answers the questions of init. A wrong answer is asked again, the
// key is not shown, and the file works.
func TestInitOnTerminal(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{})
	p := newcomer(t, s)
	terminal := p.onTerminal(t, 80, nil, "init")
	terminal.await("This writes settings to")
	terminal.await("Each project is tried with one request")
	terminal.awaitLast("Base URL of the service: ")
	terminal.press(s.URL + "/v1\n")
	terminal.await("must end before /v1")
	terminal.awaitLast("Base URL of the service: ")
	terminal.press(s.URL + "\n")
	terminal.awaitLast("(not shown): ")
	terminal.press("nokey\n")
	terminal.await("want <prefix>_<secret>")
	terminal.awaitLast("(not shown): ")
	terminal.press("sbx_of-somebody-else\n")
	terminal.awaitLast("Project ids")
	terminal.press(sandbox.DefaultProject + ",prj_nope\n")
	terminal.await("FAIL", "api", sandbox.DefaultProject+": ")
	terminal.awaitLast("(not shown): ")
	terminal.press(sandbox.DefaultAPIKey + "\n")
	terminal.await("ok", sandbox.DefaultProject, "visitors on")
	terminal.await("FAIL", "api", "prj_nope: ")
	terminal.awaitLast("instead of prj_nope (Enter leaves it out): ")
	if n := columnsOf(terminal.widest); n > 80 {
		t.Errorf("%d columns: %q", n, terminal.widest)
	}
	terminal.press("\n")
	terminal.awaitLast("Name of " + sandbox.DefaultProject + ", for people (Enter: its id): ")
	terminal.press("A,B\n")
	terminal.await("want a name without a comma")
	terminal.awaitLast("(Enter: its id): ")
	terminal.press("Product docs\n")
	terminal.await("The first export: ", "windows")
	terminal.awaitLast("Read the first numbers now? y or n [n]: ")
	if left, err := filepath.Glob(filepath.Join(p.dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("left beside the file: %v, %v", left, err)
	}
	terminal.press("y\n")
	terminal.await("deferred: ")
	terminal.await("Product docs: ")
	terminal.await("/quickstart")
	if n := len(s.Requests()); n != 90 {
		t.Errorf("%d requests, init's included; the budget is 90", n)
	}
	terminal.ends(exitDone)
	shown := strings.Join(terminal.shows(), "\n")
	if strings.Contains(shown, sandbox.DefaultAPIKey) || strings.Contains(shown, "nokey") ||
		strings.Contains(shown, "else") {
		t.Error("the terminal shows the key")
	}
	info, err := os.Stat(filepath.Join(p.dir, "docgauge.env"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info, err)
	}
	if code, out, stderr := p.try(t, "--env-file", "docgauge.env", "plan"); code != exitDone ||
		!strings.Contains(out, "missing") || stderr != "" {
		t.Errorf("plan: %d\n%s%s", code, out, stderr)
	}
}

// TestInitIsLeft: Ctrl-C and the end of the input leave nothing behind, whatever is
// asked for.
func TestInitIsLeft(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{})
	for name, tc := range map[string]struct {
		args []string
		last string
		keys string
	}{
		"at the URL":          {nil, "Base URL of the service: ", "\x03"},
		"at the key":          {[]string{"--base-url", s.URL}, "(not shown): ", "\x03"},
		"at the projects":     {[]string{"--base-url", s.URL, "--api-key-file", "key"}, "Project ids", "\x03"},
		"at the logs":         {[]string{"--base-url", "site"}, "Access logs", "\x03"},
		"at the directory":    {[]string{"--site-logs", "-"}, "]: ", "\x03"},
		"at the end of input": {[]string{"--base-url", s.URL}, "(not shown): ", "\x04"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newcomer(t, s)
			terminal := p.onTerminal(t, 80, nil, append([]string{"init"}, tc.args...)...)
			terminal.awaitLast(tc.last)
			terminal.press(tc.keys)
			terminal.ends(exitFailed)
			if left, err := os.ReadDir(p.dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestInitSiteOnTerminal answers "site", then the questions about it: wrong logs, and a format that is not
// found out, are asked for again.
func TestInitSiteOnTerminal(t *testing.T) {
	t.Parallel()
	p := newcomer(t, testbed.NewService(t, sandbox.Config{}))
	p.env = append(p.env, "DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SITE_METRICS_ADDRESS=127.0.0.1:0")
	line := `%s 192.0.2.1 [` + testbed.DaysAgo(3).String() + `T10:00:00Z] "GET /a HTTP/1.1" 200 "Mozilla/5.0 Firefox/140.0"` + "\n"
	writeText(t, filepath.Join(p.dir, "access.log"), strings.ReplaceAll(line, "%s", "docs.example.com")+
		strings.ReplaceAll(line, "%s", "www.example.com")+strings.ReplaceAll(line, "%s", "docs.example.com")+
		strings.ReplaceAll(line, "%s", "a\x1b[31mb"))
	terminal := p.onTerminal(t, 80, nil, "init")
	terminal.await("Your own site has access logs instead", "with: site")
	terminal.awaitLast("Base URL of the service: ")
	terminal.press("site\n")
	terminal.await("This counts the readers of your site")
	terminal.awaitLast("Access logs, files or globs", ": ")
	terminal.press("ftp://x\n")
	terminal.await("want a file, a glob")
	terminal.awaitLast("Access logs, files or globs", ": ")
	terminal.press("absent.log\n")
	terminal.await("FAIL", "log")
	terminal.awaitLast("Access logs, files or globs", ": ")
	terminal.press("access.log\n")
	terminal.awaitLast("(Enter: other logs): ")
	terminal.press(`nginx:$host $remote_addr [$time_iso8601] "$request" $status "$http_user_agent"` + "\n")
	terminal.await("The log has the hosts docs.example.com, www.example.com.")
	terminal.awaitLast("or all [docs.example.com]: ")
	terminal.press("x y\n")
	terminal.await("want hosts like docs.example.com")
	terminal.awaitLast("or all [docs.example.com]: ")
	terminal.press("\n")
	terminal.await("Directory of the facts")
	terminal.awaitLast("]: ")
	terminal.press("\n")
	terminal.await("claim", "Count people as claimed or confirmed")
	terminal.awaitLast("[claimed]: ")
	terminal.press("both\n")
	terminal.await("want claimed or confirmed")
	terminal.awaitLast("[claimed]: ")
	if left, err := os.ReadDir(p.dir); err != nil || len(left) != 1 {
		t.Errorf("written before all is answered: %v, %v", left, err)
	}
	if n := columnsOf(terminal.widest); n > 80 {
		t.Errorf("%d columns: %q", n, terminal.widest)
	}
	terminal.press("confirmed\n")
	terminal.awaitLast("Name of prj_site, for people [docs.example.com]: ")
	terminal.press("\n")
	terminal.await("Start the site, and leave it running:")
	terminal.ends(exitDone)
	for name, want := range map[string]string{"site.env": "DOCGAUGE_SITE_HUMANS=confirmed\n" +
		"DOCGAUGE_SITE_PROJECTS=prj_site=docs.example.com\n",
		"docgauge.env": "DOCGAUGE_REPORTS=visitors,agents,sources,views\nDOCGAUGE_BUDGET=0\nDOCGAUGE_SINCE=" + testbed.DaysAgo(3).String() + "\n"} {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	if code, out, stderr := p.try(t, "--env-file", "site.env", "site", "check"); code != exitDone {
		t.Errorf("site check: %d\n%s%s", code, out, stderr)
	}
	if code, out, stderr := p.try(t, "--env-file", "docgauge.env", "plan"); code != exitDone || stderr != "" {
		t.Errorf("plan: %d\n%s%s", code, out, stderr)
	}
}

// TestInitRefusedProject: a project that the service refuses is asked for again, not the key that it accepts.
func TestInitRefusedProject(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{
		Projects: []string{"prj_a", "prj_b"}, Faults: sandbox.Faults{Refused: []string{"prj_a"}},
	})
	p := newcomer(t, s)
	p.env = append(p.env, "DOCGAUGE_BASE_URL="+s.URL, "DOCGAUGE_PROJECTS=prj_a,prj_b")
	terminal := p.onTerminal(t, 80, nil, "init")
	terminal.awaitLast("]: ")
	terminal.press("\n")
	terminal.awaitLast("(not shown): ")
	terminal.press(sandbox.DefaultAPIKey + "\n")
	terminal.awaitLast("]: ")
	terminal.press("\n")
	terminal.await("FAIL", "api", "prj_a: ")
	terminal.awaitLast("instead of prj_a (Enter leaves it out): ")
	terminal.press("\n")
	terminal.awaitLast("Name of prj_b, for people (Enter: its id): ")
	terminal.press("\n")
	terminal.awaitLast("Read the first numbers now? y or n [n]: ")
	terminal.press("n\n")
	terminal.ends(exitDone)
	if n := len(s.Requests()); n != 2 {
		t.Errorf("%d requests, want one for each project", n)
	}
}

// TestInitOffersTheEnvironment: values of the environment are offered, and Enter accepts them.
func TestInitOffersTheEnvironment(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{})
	p := newcomer(t, s)
	p.env = append(p.env, "DOCGAUGE_BASE_URL="+s.URL, "DOCGAUGE_PROJECTS="+sandbox.DefaultProject,
		"DOCGAUGE_PROJECT_NAMES="+sandbox.DefaultProject+"=Product docs")
	terminal := p.onTerminal(t, 80, nil, "init", "--no-check")
	terminal.awaitLast("Base URL of the service [" + s.URL + "]: ")
	terminal.press("\n")
	terminal.awaitLast("(not shown): ")
	terminal.press(sandbox.DefaultAPIKey + "\n")
	terminal.awaitLast("Project ids, comma-separated [" + sandbox.DefaultProject + "]: ")
	terminal.press("\n")
	terminal.await("DOCGAUGE_PROJECTS is set in the environment too")
	terminal.awaitLast("Name of " + sandbox.DefaultProject + ", for people [Product docs]: ")
	terminal.press("\n")
	terminal.ends(exitDone)
	text, err := os.ReadFile(filepath.Join(p.dir, "docgauge.env"))
	if err != nil || !strings.Contains(string(text), "DOCGAUGE_BASE_URL="+s.URL+"\n") ||
		!strings.Contains(string(text), "DOCGAUGE_PROJECT_NAMES=\""+sandbox.DefaultProject+"=Product docs\"\n") {
		t.Errorf("%s: %v", text, err)
	}
}
