package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// preset is an agent whose command line and output are known. Its prompt is on standard input.
type preset struct {
	// command edits files. RESUME in it becomes resume for a follow-up, whose SESSION becomes the session of the
	// instruction before. In a jail, jailed takes the place of command, if there is one.
	command, jailed, resume string
	// keys are variables, any of which lets the agent reach its model: with the first one, at host. With one of clouds
	// the model is elsewhere.
	keys, clouds []string
	host         string
	// gateway is run before the command if $AGENT_URL, the URL of a Gateway, is set.
	gateway string
	// trust makes the agent trust the workspace of a jail, and so read the repository's settings for it.
	trust string
	// read takes over one JSON object of the output. What it does not know it ignores.
	read func(h *heard, object []byte, stderr bool)
	// costOfSession and tokensOfSession: in a session that was resumed, these include what was reported
	// of it before.
	costOfSession, tokensOfSession bool
}

// presets were run with Claude Code 2.1.332, Codex 0.171.0 and Gemini CLI 0.61.0 against a model server of our own.
// Besides, they follow the agents' sources and documentation.
//
//   - claude: a prompt on standard input, --permission-mode and --resume are in the reference of the command
//     line (code.claude.com/docs/en/cli-reference). total_cost_usd is the cost of the process
//     (anthropics/claude-code issue 83239), and since 2.1.277 a resumed process continues from the session's
//     total (Enderfga/claw-orchestrator pull request 112; release 1.0.143 of vercel/ai's harness-claude-code).
//     Older ones begin at 0. usage is for the process alone.
//   - codex: codex-rs/exec/src/cli.rs of openai/codex has --json for all subcommands and --sandbox only
//     before them; exec_events.rs the events. usage is for the thread, also of its earlier processes
//     (issues 16212 and 17539). The agent's own sandbox is bubblewrap too, which does not work in a jail
//     (issue 29908); danger-full-access is for environments that confine it (docs/exec.md).
//   - gemini: packages/cli/src of google-gemini/gemini-cli: without a terminal it takes its prompt from
//     standard input (gemini.tsx), and it refuses directories that are not trusted
//     (utils/userStartupWarnings.ts). Errors are an object on standard error (utils/errors.ts). stats are
//     are for the process (nonInteractiveCli.ts).
var presets = map[string]preset{
	"claude": {
		command: "exec claude -p --output-format json --permission-mode acceptEdits RESUME",
		resume:  "--resume SESSION", read: readClaude, costOfSession: true,
		keys:   []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
		clouds: []string{"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"}, host: "api.anthropic.com",
		gateway: `export ANTHROPIC_BASE_URL="$AGENT_URL"
[ "$ANTHROPIC_API_KEY$ANTHROPIC_AUTH_TOKEN" ] || export ANTHROPIC_API_KEY=none`,
		trust: `[ -e ~/.claude.json ] ||
			printf '{"projects":{"%s":{"hasTrustDialogAccepted":true}}}\n' "$PWD" >~/.claude.json
		`,
	},
	"codex": {
		command: "exec codex exec \"$@\" --json --sandbox workspace-write RESUME -",
		jailed:  "exec codex exec \"$@\" --json --sandbox danger-full-access RESUME -",
		resume:  "resume SESSION", read: readCodex, tokensOfSession: true,
		keys: []string{"CODEX_API_KEY", "CODEX_ACCESS_TOKEN"}, host: "api.openai.com",
		gateway: `key=${CODEX_API_KEY:+CODEX_API_KEY} key=${key:-${OPENAI_API_KEY:+OPENAI_API_KEY}}
set -- -c model_provider=gateway -c model_providers.gateway.name=gateway \
	-c "model_providers.gateway.base_url=$AGENT_URL/v1" ${key:+-c "model_providers.gateway.env_key=$key"}`,
		trust: `[ -e ~/.codex/config.toml ] || { mkdir -p ~/.codex
			printf '[projects."%s"]\ntrust_level = "trusted"\n' "$PWD" >~/.codex/config.toml; }
		`,
	},
	"gemini": {
		command: "exec env GEMINI_CLI_TRUST_WORKSPACE=true gemini --output-format json --approval-mode auto_edit RESUME",
		resume:  "--resume SESSION", read: readGemini,
		keys: []string{"GEMINI_API_KEY"}, clouds: []string{"GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"},
		host: "generativelanguage.googleapis.com",
		gateway: `export GOOGLE_GEMINI_BASE_URL="$AGENT_URL" GEMINI_API_KEY="${GEMINI_API_KEY:-none}"
mkdir -p "$HOME/.gemini" # whose settings say that the key is for Gemini's API: otherwise it refuses the URL
[ -e "$HOME/.gemini/settings.json" ] ||
	echo '{"security":{"auth":{"selectedType":"gemini-api-key"}}}' >"$HOME/.gemini/settings.json"`,
	},
}

// Presets returns the names of the agents whose command line and output are known.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// CheckAccess returns an error if an agent lacks the key of its model's service among the variables that it gets, or that
// service among its hosts. Without a jail it reaches every host.
func CheckAccess(name string, env, hosts []string, jailed bool) (err error) {
	p := presets[name]
	keys := slices.Concat(p.keys, p.clouds)
	i := slices.IndexFunc(keys, func(key string) bool { return slices.Contains(env, key) })
	if i < 0 {
		err = fmt.Errorf("DOCGAUGE_SITE_AGENT_ENV: has no key for %s; want %s", name, strings.Join(keys, " or "))
	}
	allowed, _ := ParseHosts(hosts)
	if _, ok := allows(allowed, p.host, "443"); jailed && !ok && i < 1 {
		err = errors.Join(err, fmt.Errorf("DOCGAUGE_SITE_AGENT_HOSTS: %s needs %s", name, p.host))
	}
	return err
}

// DefaultHosts returns the host of an agent's service, none if one of its variables says that its model is elsewhere.
func DefaultHosts(name string, env []string) []string {
	p := presets[name]
	if slices.ContainsFunc(p.clouds, func(key string) bool { return slices.Contains(env, key) }) {
		return nil
	}
	return []string{p.host}
}

// commandLine returns the command for sh -c.
func (p preset) commandLine(jailed bool, session *session) string {
	command, resume := p.command, ""
	if jailed {
		command = p.trust + cmp.Or(p.jailed, command)
	}
	if session != nil {
		resume = strings.ReplaceAll(p.resume, "SESSION", session.ID)
	}
	return `if [ "$` + gatewayVariable + `" ]; then ` + p.gateway + "\nfi\n" +
		strings.TrimSpace(strings.ReplaceAll(command, "RESUME", resume))
}

// heard is what an agent has said so far.
type heard struct {
	session string
	cost    *float64
	tokens  *int64
	said    string   // its last message
	denied  []string // tools that it may not use
	ended   bool     // it reported its end
	failure string   // the error it ended with, in its words
	status  int      // HTTP status of the model's service in that error; 0 = none
}

// listener reads the report of an agent from its output.
type listener struct {
	preset preset

	refused []string // hosts that it asked for and may not reach

	mu sync.Mutex // two streams are read at once
	heard
}

// stream returns a writer for standard output or standard error.
func (l *listener) stream(stderr bool) io.Writer {
	return &objects{lineStart: true, found: func(object []byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.preset.read(&l.heard, object, stderr)
	}}
}

// sessionForm keeps what an agent says from being more than one argument of the next command.
var sessionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

var (
	// limits are words of errors that pass within hours, passes of errors that pass within minutes.
	limits = regexp.MustCompile(`(?i)\brate.?limit|(usage|session|hour|daily|weekly) limit|hit your limit|` +
		`quota|overloaded|too many requests|resource.?exhausted|\b(429|529)\b`)
	passes = regexp.MustCompile(`(?i)\b(status|error|code):? *5[0-9]{2}\b|\b5[0-9]{2} (internal|bad gateway|service|` +
		`gateway)|internal server error|high demand|temporary error|stream (disconnected|closed|error)|` +
		`connection (was )?(closed|reset|lost)|ECONNRESET|usually temporary|\bterminated\b|premature close`)
	// lost are words of a session that cannot be resumed.
	lost = regexp.MustCompile(`(?i)no (rollout|conversation|session)s? (was )?found|invalid session|error resuming`)
	// unreached are words of a host that was not reached; a certificate that is not trusted shows that it was.
	unreached = regexp.MustCompile(`(?i)unable to connect|(could ?n.t|cannot|failed to) (connect|reach)|fetch failed|` +
		`connection ?(error|refused|failed)|network (error|issue)|error sending request|proxy|ENOTFOUND|EAI_AGAIN|AGENT_HOSTS`)
	untrusted = regexp.MustCompile(`(?i)certificate|\bSSL\b`)
)

var (
	errLimit    = errors.New("the agent met a limit of its model's service")
	errPasses   = errors.New("the agent met an error that may pass")
	errLost     = errors.New("the agent cannot resume its session")
	errReported = errors.New("the agent reports an error")
	errNoReport = errors.New("the agent's output has no report of its end that docgauge understands")
)

// explain adds to the error of an agent the setting that it may come from. Refused hosts are named all without words,
// else those that its words name, or all if they say that a host was not reached and the model has no gateway. Agents
// also ask for hosts that they do without.
func explain(err error, words string, refused []string, gateway *Gateway) error {
	named := slices.DeleteFunc(slices.Clone(refused), func(target string) bool {
		name, _, _ := strings.Cut(strings.Trim(target, `"`), ":")
		return !strings.Contains(words, name)
	})
	switch isUnreached := unreached.MatchString(words) && !untrusted.MatchString(words); {
	case words == "", isUnreached && gateway == nil, strings.Contains(words, "AGENT_HOSTS"):
		named = refused
	case isUnreached && len(named) == 0 && !strings.Contains(words, "AGENT_URL"):
		return fmt.Errorf("%w; its model is behind DOCGAUGE_SITE_AGENT_URL: docgauge site check asks whether that answers", err)
	}
	return withHosts(err, named)
}

// oneLine returns text as one line of at most size bytes.
func oneLine(text string, size int) string {
	text = strings.Join(strings.Fields(strings.Map(printable, text)), " ")
	if len(text) > size {
		text = strings.ToValidUTF8(text[:size-len("…")], "") + "…"
	}
	return text
}

// report returns what the agent said of an instruction that continued resumed, nil for a new session.
// ended is why it did not end well, with its words. No process of the agent is left.
func (l *listener) report(resumed *session, secrets []Variable) (r *Report, ended error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r = &Report{Cost: within(l.cost, maxCost), Tokens: within(l.tokens, maxTokens), Said: redact(l.said, secrets),
		Refused: l.refused}
	for _, tool := range l.denied[:min(len(l.denied), maxDenied)] {
		r.Denied = append(r.Denied, oneLine(redact(tool, secrets), maxWords))
	}
	if sessionForm.MatchString(l.session) {
		r.Session = &session{ID: l.session, Cost: r.Cost, Tokens: r.Tokens}
	}
	if resumed != nil && l.preset.costOfSession {
		r.Cost = since(resumed.Cost, r.Cost)
	}
	if resumed != nil && l.preset.tokensOfSession {
		r.Tokens = since(resumed.Tokens, r.Tokens)
	}
	words := oneLine(redact(l.failure, secrets), maxWords)
	switch {
	case !l.ended:
		return r, errNoReport
	case l.failure == "":
		return r, nil
	case l.status == 429, l.status == 529, limits.MatchString(l.failure):
		ended = errLimit
	case resumed != nil && lost.MatchString(l.failure):
		ended = errLost
	case l.status >= 500, passes.MatchString(l.failure):
		ended = errPasses
	default:
		ended = errReported
	}
	return r, fmt.Errorf("%w: %s", ended, words)
}

// maxWords is the size in bytes at which an agent's words of one thing are cut, maxDenied the number of denied tools.
const maxWords, maxDenied = 300, 10

// Larger numbers are not believed, so that sums remain numbers.
const (
	maxCost   float64 = 1e6
	maxTokens int64   = 1e12
)

func within[T int64 | float64](n *T, most T) *T {
	if n == nil || *n < 0 || *n > most {
		return nil
	}
	return n
}

// since returns the part of now that is not in before. A smaller now began at 0.
func since[T int64 | float64](before, now *T) *T {
	if before == nil || now == nil {
		return nil
	}
	if *now < *before {
		return now
	}
	return new(*now - *before)
}

// sum returns the sum of the counts that there are, nil if there is none or one is impossible.
func sum(counts ...*int64) (all *int64) {
	for _, n := range counts {
		switch {
		case n == nil:
		case within(n, maxTokens) == nil:
			return nil
		case all == nil:
			all = new(*n)
		default:
			all = new(*all + *n)
		}
	}
	return all
}

// readClaude reads the one object of its end. A limit has the subtype "success", too.
func readClaude(h *heard, object []byte, stderr bool) {
	var o struct {
		Type, Subtype, Result string
		IsError               bool     `json:"is_error"`
		Session               string   `json:"session_id"`
		Cost                  *float64 `json:"total_cost_usd"`
		Status                any      `json:"api_error_status"`
		Errors                any
		Denials               []struct {
			Tool  string `json:"tool_name"`
			Input any    `json:"tool_input"`
		} `json:"permission_denials"`
		Usage struct {
			Input   *int64 `json:"input_tokens"`
			Created *int64 `json:"cache_creation_input_tokens"`
			Cached  *int64 `json:"cache_read_input_tokens"`
			Output  *int64 `json:"output_tokens"`
		}
	}
	if stderr || json.Unmarshal(object, &o) != nil || o.Type != "result" {
		return
	}
	*h = heard{session: o.Session, cost: o.Cost, ended: true,
		tokens: sum(o.Usage.Input, o.Usage.Created, o.Usage.Cached, o.Usage.Output)}
	for _, d := range o.Denials {
		tool := d.Tool
		if input, ok := d.Input.(map[string]any); ok && input["command"] != nil {
			tool += fmt.Sprintf(": %v", input["command"])
		}
		h.denied = append(h.denied, tool)
	}
	if h.said = o.Result; o.IsError || o.Subtype != "success" {
		words := o.Result
		if errs, ok := o.Errors.([]any); ok && len(errs) > 0 {
			words += fmt.Sprint(" ", errs)
		}
		words = strings.TrimSpace(words)
		if o.Subtype != "success" || words == "" { // the subtype of an error of the service is success, too
			words = strings.TrimSpace(o.Subtype + " " + words)
		}
		h.said, h.failure, h.status = "", words, asStatus(o.Status)
	}
}

// asStatus returns the status of an HTTP error, 0 for anything else.
func asStatus(code any) int {
	if n, ok := code.(float64); ok && n >= 400 && n < 600 {
		return int(n)
	}
	return 0
}

// readCodex reads an event. It has no cost.
func readCodex(h *heard, object []byte, stderr bool) {
	var e struct {
		Type   string
		Thread string `json:"thread_id"`
		Error  struct{ Message string }
		Item   struct{ Type, Text any }
		Usage  struct {
			Input  *int64 `json:"input_tokens"` // those from the cache included
			Output *int64 `json:"output_tokens"`
		}
	}
	if stderr || json.Unmarshal(object, &e) != nil {
		return
	}
	switch e.Type {
	case "thread.started":
		h.session = e.Thread
	case "turn.started":
		h.ended, h.failure = false, ""
	case "item.completed":
		if text, ok := e.Item.Text.(string); ok && e.Item.Type == "agent_message" {
			h.said = text
		}
	case "turn.completed":
		h.ended, h.failure, h.tokens = true, "", sum(e.Usage.Input, e.Usage.Output)
	case "turn.failed":
		h.ended, h.failure, h.tokens = true, cmp.Or(e.Error.Message, "the turn failed"), nil
	}
}

// readGemini reads the one object of its end. It has no cost. On standard error, the object of an error
// has a session, unlike the service's errors that are printed before another try.
func readGemini(h *heard, object []byte, stderr bool) {
	var o struct {
		Session  string `json:"session_id"`
		Response *string
		Stats    *struct {
			Models map[string]struct{ Tokens struct{ Total *int64 } }
		}
		Error *struct {
			Type, Message string
			Code          any // a status, or a word
		}
	}
	if json.Unmarshal(object, &o) != nil || o.Response == nil && o.Stats == nil && o.Error == nil ||
		stderr && (o.Error == nil || o.Session == "") {
		return
	}
	h.session, h.ended = o.Session, true
	if h.said = ""; o.Response != nil {
		h.said = *o.Response
	}
	if o.Error != nil {
		h.failure = strings.Trim(o.Error.Type+": "+o.Error.Message, ": ")
		h.status = asStatus(o.Error.Code)
	}
	if o.Stats != nil {
		var counts []*int64
		for _, model := range o.Stats.Models {
			counts = append(counts, model.Tokens.Total)
		}
		h.tokens = sum(counts...)
	}
}

// Sizes of objects: of a longer string the beginning is kept, and an object that is larger nevertheless is
// skipped.
const (
	maxString = 4 << 10
	maxObject = 256 << 10
)

// objects is a writer that finds the JSON objects between whatever else a program prints, and passes them
// on. It does not check them. An object begins with a brace, outside another one or at the beginning of a
// line: there, indented JSON has no other.
type objects struct {
	found func(object []byte)

	kept      []byte
	depth     int // of braces; 0 = outside objects
	lineStart bool
	skip      bool // the object is too large
	opened    bool // only blanks since the last opening brace
	// In a string: whether the byte before is a backslash that escapes, the bytes since such a pair, the
	// bytes since its beginning, and whether the rest of it is left out.
	inString, escaped bool
	plain, length     int
	cut               bool
}

func (o *objects) Write(p []byte) (int, error) {
	for _, c := range p {
		begins := c == '{' && (o.depth == 0 || o.lineStart)
		if o.lineStart = c == '\n'; begins {
			*o = objects{found: o.found, kept: append(o.kept[:0], c), depth: 1, opened: true}
		} else if o.depth > 0 {
			o.next(c)
		}
	}
	return len(p), nil
}

// next continues an object.
func (o *objects) next(c byte) {
	keep, blank := true, c == ' ' || c == '\n' || c == '\r' || c == '\t'
	if o.opened && !blank && c != '"' && c != '}' || o.inString && c == '\n' { // not JSON
		o.depth, o.kept = 0, o.kept[:0]
		return
	}
	o.opened = o.opened && blank
	switch {
	case o.inString:
		end := c == '"' && !o.escaped
		o.length++
		// Not in the middle of \u0000.
		o.cut = o.cut || o.length > maxString && !o.escaped && (c == '\\' || o.plain > len("0000"))
		keep = end || !o.cut
		if o.plain++; o.escaped {
			o.plain = 0
		}
		o.escaped = c == '\\' && !o.escaped
		o.inString = !end
	case c == '"':
		o.inString, o.escaped, o.cut, o.plain, o.length = true, false, false, len("0000")+1, 0
	case c == '{':
		o.depth++
		o.opened = true
	case c == '}':
		o.depth--
	}
	if o.skip = o.skip || len(o.kept) >= maxObject; keep && !o.skip {
		o.kept = append(o.kept, c)
	}
	if o.depth == 0 {
		if !o.skip {
			o.found(o.kept)
		}
		o.kept = o.kept[:0]
	}
}
