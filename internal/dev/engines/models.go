package engines

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// AgentDir returns the directory of the agents' packages, below which .bin has their programs.
func AgentDir() (string, error) {
	dir := filepath.Join(Tools(), "agents", "node_modules")
	if _, err := os.Stat(filepath.Join(dir, ".bin", "gemini")); err != nil {
		return "", Missing{Engine: "Claude Code, Codex and Gemini CLI", Install: "sh internal/dev/engines/install.sh agents"}
	}
	return dir, nil
}

// Models pretends to be the models of Claude, Codex and Gemini, in the versions that install.sh pins, and returns its
// URL. It writes the word W into the file W.md where the newest prompt says "Write the word W", then names the words of
// all prompts of the session. Some words are faults: it ends each answer to "drop" in its middle, and the answers to
// "key" and "limit" are errors in the words of the services. Each answer has 1,000 tokens of input and 40 of output.
func Models(t testing.TB) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		m := model{w: w, body: body}
		for _, found := range wanted.FindAllSubmatch(body, -1) {
			if m.word = string(found[1]); !slices.Contains(m.words, m.word) {
				m.words = append(m.words, m.word)
			}
		}
		var answer func()
		for form, f := range map[string]func(){"/messages": m.claude, "/responses": m.codex,
			":streamGenerateContent": m.gemini} {
			if strings.HasSuffix(r.URL.Path, form) {
				answer = f
			}
		}
		switch {
		case answer == nil:
			m.fail(http.StatusNotFound, "not found")
		case m.word == "key":
			m.fail(http.StatusUnauthorized, "invalid x-api-key")
		case m.word == "limit":
			m.fail(http.StatusTooManyRequests, "rate limit of 50,000 tokens a minute exceeded")
		default:
			answer()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

var wanted = regexp.MustCompile(`Write the word ([a-z]+)`)

// model answers one request.
type model struct {
	w    http.ResponseWriter
	body []byte
	// words has the words of all prompts of the session, word the newest.
	words []string
	word  string
}

type object = map[string]any

// fail answers with an error in a form that all three agents understand.
func (m model) fail(status int, message string) {
	kind, name := "authentication_error", "UNAUTHENTICATED"
	if status == http.StatusTooManyRequests {
		kind, name = "rate_limit_error", "RESOURCE_EXHAUSTED"
		m.w.Header().Set("Retry-After", "1")
	}
	m.w.Header().Set("Content-Type", "application/json")
	m.w.WriteHeader(status)
	_ = json.NewEncoder(m.w).Encode(object{"type": "error", "error": object{"type": kind, "message": message,
		"code": status, "status": name}})
}

// stream sends events, each with its name in "type", or half of them.
func (m model) stream(events ...object) {
	drops := m.word == "drop"
	if m.w.Header().Set("Content-Type", "text/event-stream"); drops {
		events = events[:len(events)/2]
	}
	for _, e := range events {
		text, _ := json.Marshal(e)
		if name, ok := e["type"]; ok {
			_, _ = fmt.Fprintf(m.w, "event: %s\n", name)
		}
		_, _ = fmt.Fprintf(m.w, "data: %s\n\n", text)
		_ = http.NewResponseController(m.w).Flush()
	}
	if drops {
		panic(http.ErrAbortHandler)
	}
}

// done reports whether the newest prompt's word was written already: a result of a tool comes after it.
func (m model) done(result string) bool {
	return strings.Contains(string(m.body[max(0, strings.LastIndex(string(m.body), "Write the word "+m.word)):]), result)
}

func (m model) said() string { return "I wrote " + strings.Join(m.words, ", ") + "." }

// claude answers as the Messages API of Anthropic does.
func (m model) claude() {
	usage := object{"input_tokens": 1000, "output_tokens": 40}
	block, stop := object{"type": "tool_use", "id": "toolu_" + m.word, "name": "Write", "input": object{}}, "tool_use"
	input, _ := json.Marshal(object{"file_path": "/workspace/" + m.word + ".md", "content": m.word + "\n"})
	delta := object{"type": "input_json_delta", "partial_json": string(input)}
	id := "msg_use_" + m.word
	// A resumed session may send results before the prompt that they follow from.
	if strings.Contains(string(m.body), `"tool_use_id":"toolu_`+m.word+`"`) ||
		!strings.Contains(string(m.body), `"name":"Write"`) {
		id = "msg_" + m.word
		block, stop = object{"type": "text", "text": ""}, "end_turn"
		delta = object{"type": "text_delta", "text": m.said()}
	}
	m.stream(object{"type": "message_start", "message": object{"id": id, "type": "message", "role": "assistant",
		"model": "fake", "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}},
		object{"type": "content_block_start", "index": 0, "content_block": block},
		object{"type": "content_block_delta", "index": 0, "delta": delta},
		object{"type": "content_block_stop", "index": 0},
		object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil},
			"usage": object{"output_tokens": 40}},
		object{"type": "message_stop"})
}

// codex answers as the Responses API of OpenAI does.
func (m model) codex() {
	item := object{"type": "custom_tool_call", "id": "ctc_" + m.word, "call_id": "call_" + m.word, "status": "completed",
		"name": "exec", "input": fmt.Sprintf("await tools.exec_command({cmd: %q})", "echo "+m.word+" >"+m.word+".md")}
	if m.done(`tool_call_output"`) {
		item = object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": m.said(), "annotations": []any{}}}}
	}
	usage := object{"input_tokens": 1000, "input_tokens_details": object{"cached_tokens": 900}, "output_tokens": 40,
		"output_tokens_details": object{"reasoning_tokens": 10}, "total_tokens": 1040}
	begun := object{"id": "resp_1", "object": "response", "status": "in_progress", "output": []any{}}
	ended := maps.Clone(begun)
	maps.Copy(ended, object{"status": "completed", "output": []any{item}, "usage": usage})
	m.stream(object{"type": "response.created", "response": begun},
		object{"type": "response.output_item.added", "output_index": 0, "item": item},
		object{"type": "response.output_item.done", "output_index": 0, "item": item},
		object{"type": "response.completed", "response": ended})
}

// gemini answers as Google's API for Gemini does.
func (m model) gemini() {
	part := func(p object) object {
		return object{"candidates": []any{object{"content": object{"role": "model", "parts": []any{p}}, "index": 0}}}
	}
	last := part(object{"functionCall": object{"name": "write_file",
		"args": object{"file_path": m.word + ".md", "content": m.word + "\n"}}})
	if m.done(`"functionResponse"`) {
		last = part(object{"text": m.said()})
	}
	candidate := last["candidates"].([]any)[0].(object)
	candidate["finishReason"] = "STOP"
	last["usageMetadata"] = object{"promptTokenCount": 1000, "candidatesTokenCount": 40, "totalTokenCount": 1040}
	m.stream(part(object{"text": "Working. "}), last)
}
