package page_test

import (
	"strings"
	"testing"
)

func TestQueue(t *testing.T) {
	_, body := get(t, demo(), "v1")
	for _, text := range []string{
		"4 pending, 1 active, 1 completed, 1 unknown", "Paused. Two prompts in a row",
		"Pages that lost readers", "stalled", "fix-&lt;b&gt;typos&lt;/b&gt;.md",
		`href="https://code.example/acme/docs/pull/412" rel="noreferrer">#412</a>`, "in 60\u00a0min",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if strings.Contains(body, "javascript:") {
		t.Error("a link that is none can be followed")
	}
	if _, body := get(t, good(), "v1"); strings.Contains(body, "Agent jobs") {
		t.Error("a queue that is not there is shown")
	}
}
