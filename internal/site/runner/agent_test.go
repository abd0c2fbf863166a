package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestWords: what an agent says of its error and of its work, on one line, cut and without secrets.
func TestWords(t *testing.T) {
	secrets := (&Repo{options: RepoOptions{Env: []Variable{{Name: "KEY", Value: "sk-0123456789"}}}}).secrets()
	long := strings.Repeat("é", maxWords)
	for _, tc := range []struct {
		preset, output string
		ended          error
		words, said    string
		denied         string
	}{
		{"claude", `{"type":"result","subtype":"success","is_error":true,"result":"API Error: 401\n bad key sk-0123456789",` +
			`"api_error_status":401}`, errReported, "the agent reports an error: API Error: 401 bad key [redacted]", "", ""},
		{"claude", `{"type":"result","subtype":"success","is_error":true,"result":"busy","api_error_status":529}`,
			errLimit, "service: busy", "", ""},
		{"claude", `{"type":"result","subtype":"success","is_error":true,"result":"x","api_error_status":500}`,
			errPasses, "may pass: x", "", ""},
		{"claude", `{"type":"result","subtype":"success","is_error":true,"api_error_status":null,"result":"API Error: ` +
			`Connection to the API was lost (ECONNRESET). This is usually temporary — try again."}`, errPasses, "lost", "", ""},
		{"claude", `{"type":"result","subtype":"error_during_execution","errors":["No conversation found with session ID"]}`,
			errLost, "No conversation found", "", ""},
		{"claude", `{"type":"result","subtype":"success","result":"Done with sk-0123456789.","permission_denials":` +
			`[{"tool_name":"Bash","tool_input":{"command":"mkdocs build"}},{"tool_name":"WebFetch","tool_input":7}]}`,
			nil, "", "Done with [redacted].", "Bash: mkdocs build, WebFetch"},
		{"codex", `{"type":"turn.started"}{"type":"item.completed","item":{"type":"agent_message","text":"Did it."}}` +
			`{"type":"turn.completed"}`, nil, "", "Did it.", ""},
		{"codex", `{"type":"turn.failed","error":{"message":"We are currently experiencing high demand"}}`,
			errPasses, "high demand", "", ""},
		{"codex", `{"type":"turn.failed","error":{"message":"stream disconnected before completion"}}`,
			errPasses, "stream disconnected", "", ""},
		{"codex", `{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}`,
			errReported, "unexpected status 401", "", ""},
		{"gemini", `{"session_id":"x","response":"All said."}`, nil, "", "All said.", ""},
		{"gemini", `{"session_id":"x","error":{"type":"ApiError","message":"` + long + `","code":503}}`,
			errPasses, "may pass: ApiError: é", "", ""},
		{"gemini", `{"session_id":"x","error":{"type":"ApiError","message":"no","code":41}}`,
			errReported, "error: ApiError: no", "", ""},
	} {
		l := &listener{preset: presets[tc.preset]}
		_, err := l.stream(false).Write([]byte(tc.output))
		check(t, err)
		r, ended := l.report(&session{}, secrets)
		text := ""
		if ended != nil {
			text = ended.Error()
		}
		if !errors.Is(ended, tc.ended) || (ended == nil) != (tc.ended == nil) || !strings.Contains(text, tc.words) ||
			len(text) > maxWords+100 || strings.Contains(text, "\n") || r.Said != tc.said ||
			strings.Join(r.Denied, ", ") != tc.denied {
			t.Errorf("%s: %v, %+v, want %v %q %q %q", tc.output, ended, r, tc.ended, tc.words, tc.said, tc.denied)
		}
	}
}

// TestExplain: refused hosts, or the gateway, are named where they may be the cause of an error, and not beside another
// one.
func TestExplain(t *testing.T) {
	const hosts, gateway = "DOCGAUGE_SITE_AGENT_HOSTS does not allow ", "its model is behind DOCGAUGE_SITE_AGENT_URL: docgauge site check asks whether that answers"
	const model, other = `"api.anthropic.com:443"`, `"telemetry.example:443"`
	const both = model + ", " + other
	for words, want := range map[string][2]string{ // without a gateway, and with one
		"": {hosts + both, hosts + both},
		"API Error: Unable to connect to API (ConnectionRefused)":                   {hosts + both, gateway},
		"Unable to connect to API: SSL certificate verification failed":             {},
		"API Error: 405 only CONNECT is allowed, for HTTPS":                         {},
		"no rollout found for thread id 0199":                                       {},
		"API Error: 403 Your organization has no access to this model":              {},
		"API Error: 401 invalid x-api-key":                                          {},
		"could not send to https://api.anthropic.com/v1/messages":                   {hosts + model, hosts + model},
		"TypeError: fetch failed":                                                   {hosts + both, gateway},
		"error sending request for url (https://chatgpt.com/backend-api/codex/x)":   {hosts + both, gateway},
		"tunnel failed: 403 DOCGAUGE_SITE_AGENT_HOSTS does not have this host":      {hosts + both, hosts + both},
		"error sending request for url (https://telemetry.example/v1)":              {hosts + both, hosts + other},
		"502 Bad Gateway: DOCGAUGE_SITE_AGENT_URL: dial tcp: connection refused":    {hosts + both, ""},
		"stream disconnected before completion: Transport error: network error: no": {hosts + both, gateway},
	} {
		for i, g := range []*Gateway{nil, {}} {
			got := explain(errReported, words, []string{model, other}, g)
			if want := strings.TrimSuffix(errReported.Error()+"; "+want[i], "; "); got.Error() != want {
				t.Errorf("%s, gateway %t: %s, want %s", words, g != nil, got, want)
			}
		}
	}
}

// agent puts a program named claude first in PATH: a script.
func agent(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "claude"), "#!/bin/sh\n"+script)
	check(t, os.Chmod(filepath.Join(dir, "claude"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

const done = `echo '{"type":"result","subtype":"success","session_id":"one","total_cost_usd":0.5,"result":"Done."}'`

// TestSecretInOutput: the end of an output does not begin in the middle of a secret, nor end there.
func TestSecretInOutput(t *testing.T) {
	t.Setenv("MODEL_KEY", strings.Repeat("k", 1000)+"end")
	for pad := range 12 {
		r := openRepo(t, RepoOptions{Path: engines.GitRepository(t), Env: variables("MODEL_KEY"),
			Command: "echo $MODEL_KEY; " + "head -c " + string(rune('0'+pad%10)) + "00 /dev/zero | tr '\\0' x; head -c 15800 /dev/zero | tr '\\0' y; " +
				"echo; printf %s $MODEL_KEY | head -c 900; exit 1"})
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		if err == nil || strings.Contains(result.Output+err.Error(), "kkk") || !strings.HasSuffix(result.Output, hidden) {
			t.Errorf("%v, output %.100q … %q", err, result.Output, result.Output[len(result.Output)-50:])
		}
	}
}

// TestSecretInChange: a change may keep a secret that its files had, and moves of them, and does not add one. Plain
// settings may be anywhere.
func TestSecretInChange(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("MODEL_KEY", "sk-0123456789abcdef")
	repo := engines.GitRepository(t)
	write(t, filepath.Join(repo, "had.md"), "key sk-0123456789abcdef here\n")
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "second")
	env := append(variables("MODEL_KEY"), Variable{Name: "AWS_REGION", Value: "us-east-1", Plain: true})
	for command, want := range map[string]string{
		"echo more >>had.md":                            "",
		"mv had.md moved.md":                            "",
		"echo $AWS_REGION >region.md; echo $AWS_REGION": "",
		"echo $MODEL_KEY >>had.md":                      "contains the secret MODEL_KEY",
		"echo $MODEL_KEY >new.md":                       "contains the secret MODEL_KEY",
	} {
		r := openRepo(t, RepoOptions{Path: repo, Command: command, Env: env})
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) ||
			strings.Contains(result.Output, hidden) {
			t.Errorf("%s: %v, output %q", command, err, result.Output)
		}
	}
}

// TestKeysLeaveHome: after an instruction no file of the home has a secret; others stay.
func TestKeysLeaveHome(t *testing.T) {
	t.Setenv("MODEL_KEY", "sk-0123456789abcdef")
	for _, jailed := range []bool{true, false} {
		dir := agent(t, `mkdir -p ~/.codex/shell "$HOME/a b"; env >~/.codex/shell/snapshot.sh; env >"$HOME/a b/-f"
			printf 'x\0%s\0' "$MODEL_KEY" >~/binary; echo good >~/.codex/good; mkdir ~/closed; env >~/closed/env
			chmod 0 ~/closed/env ~/closed; ln -s /etc/passwd ~/link; `+done)
		o := RepoOptions{Path: engines.GitRepository(t), Preset: "claude", OwnHome: true, Env: variables("MODEL_KEY")}
		if jailed {
			o.Jail = newJail(t, JailOptions{Tools: []string{dir}})
		}
		r := openRepo(t, o)
		_, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		check(t, err)
		var left []string
		home := r.place("job_1").home()
		check(t, filepath.WalkDir(home, func(name string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && d.Name() != ".claude.json" {
				left = append(left, strings.TrimPrefix(name, home))
			}
			return err
		}))
		if got := strings.Join(left, " "); got != "/.codex/good" {
			t.Errorf("jailed %t: left %s", jailed, got)
		}
	}
}

// TestOtherAgent: a session of another agent is not resumed, nor one that is lost.
func TestOtherAgent(t *testing.T) {
	agent(t, `case $* in *lost*) echo "No conversation found with session ID: lost" >&2; exit 1;; esac
		echo "$*" >>new.md; `+done)
	for name, tc := range map[string]struct {
		session         session
		resumed, before bool
	}{
		"its own":   {session{Agent: "claude", ID: "mine", Cost: new(0.25)}, true, false},
		"another's": {session{Agent: "codex", ID: "other"}, false, true},
		"lost":      {session{Agent: "claude", ID: "lost", Cost: new(0.25)}, false, true},
	} {
		repo := engines.GitRepository(t)
		r := openRepo(t, RepoOptions{Path: repo, Preset: "claude"})
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x", Session: &tc.session})
		check(t, err)
		resumed := strings.Contains(engines.Git(t, repo, "show", result.Change.Head+":new.md"), "--resume")
		cost := map[bool]float64{true: 0.25, false: 0.5}[tc.resumed]
		if resumed != tc.resumed || result.NewSession != tc.before || result.Report.Cost == nil ||
			*result.Report.Cost != cost || result.Report.Session.Agent != "claude" || result.Report.Said != "Done." {
			t.Errorf("%s: resumed %t, %+v, %+v", name, resumed, result, result.Report)
		}
	}
}

// TestCheckTries: the output of a check that fails goes to the agent's session, a bounded number of times, and what a
// check leaves behind is no part of the change. An error of the agent that passes is named, and tried again later.
func TestCheckTries(t *testing.T) {
	const script = `cat >~/prompt$(ls ~ | grep -c prompt); echo "$*" >>~/arguments; n=$(cat ~/n); n=$((n+1)); echo $n >~/n
		case $n in $STOP) ;; *) echo $n >>new.md;; esac
		case $n in $BUSY) busy='"is_error":true,"api_error_status":529,';; esac
		echo '{"type":"result","subtype":"success","session_id":"one",'$busy'"total_cost_usd":'$n'}'`
	for _, tc := range []struct {
		check, stop, busy string
		tries             int
		want              string // of new.md; empty = it fails
		runs              int
	}{
		{"touch left.tmp; grep 3 new.md || { echo line three is missing; exit 1; }", "-", "-", 2, "1\n2\n3", 3},
		{"grep 1 new.md", "-", "-", 2, "1", 1},
		{"grep 1 new.md", "-", "1", 2, "1", 1},
		{"echo no; exit 1", "-", "-", 2, "", 3},
		{"echo no; exit 1", "-", "-", 0, "", 1},
		{"echo no; exit 1", "2", "-", 2, "", 2}, // the agent changes nothing
		{"echo no; exit 1", "-", "1", 2, "", 1},
		{"echo no; exit 1", "2", "2", 2, "", 2},
	} {
		agent(t, script)
		repo := engines.GitRepository(t)
		r := openRepo(t, RepoOptions{Path: repo, Preset: "claude", OwnHome: true, Check: tc.check, CheckTries: tc.tries,
			Env: []Variable{{Name: "STOP", Value: tc.stop, Plain: true}, {Name: "BUSY", Value: tc.busy, Plain: true}}})
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "Write\n"})
		if (err == nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), "check: exit status 1: no") {
			t.Errorf("%s: %v, output %q", tc.check, err, result.Output)
		}
		if busy := err != nil && tc.busy != "-"; busy != errors.Is(err, errLimit) || busy != (result.Retries == maxRetries) {
			t.Errorf("%s, busy %s: %v, %d retries", tc.check, tc.busy, err, result.Retries)
		}
		if tc.want != "" {
			head := result.Change.Head
			if got := engines.Git(t, repo, "show", head+":new.md"); got != tc.want {
				t.Errorf("%s: new.md %q", tc.check, got)
			}
			if got := engines.Git(t, repo, "diff", "--name-only", "main", head); got != "new.md" {
				t.Errorf("%s: changed %q", tc.check, got)
			}
			if got := strings.Join(result.Change.Messages, ", "); got != "Write" {
				t.Errorf("%s: commits %q", tc.check, got)
			}
		}
		home := r.place("job_1").home()
		arguments, err := os.ReadFile(filepath.Join(home, "arguments"))
		check(t, err)
		lines := strings.Split(strings.TrimSpace(string(arguments)), "\n")
		if len(lines) != tc.runs || *result.Report.Cost != float64(tc.runs) ||
			len(lines) > 1 && !strings.Contains(lines[1], "--resume one") {
			t.Errorf("%s: cost %v, ran %q", tc.check, *result.Report.Cost, lines)
		}
		if second, _ := os.ReadFile(filepath.Join(home, "prompt1")); strings.Contains(tc.check, "three") &&
			!strings.Contains(string(second), "\nline three is missing\n") {
			t.Errorf("%s: second prompt %q", tc.check, second)
		}
	}
}
