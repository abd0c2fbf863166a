package view

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

func TestWords(t *testing.T) {
	for _, tc := range [][2]string{
		{Percent(1, 3), "33.3%"}, {Percent(0, 3), "0.0%"}, {Percent(3, 3), "100%"}, {Percent(1, 0), "–"},
		{Growth(200, 199), "−0.5%"}, {Growth(1, 40), "+3900%"}, {Growth(0, 40), ""}, {Growth(40, 40), ""},
		{Growth(10000, 10001), ""},
		{Signed(1300), "+1,300"}, {Signed(-1300), "−1,300"}, {Signed(0), "0"},
		{Link("https://code.example/acme/docs/pull/412").Short(), "#412"},
		{Link("https://code.example").Short(), "code.example"}, {Link("https://code.example/a/b/").Short(), "…/b"},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%q, want %q", tc[0], tc[1])
		}
	}
}

// TestJobStates: a job has the same name and the same colour wherever it is shown.
func TestJobStates(t *testing.T) {
	for _, state := range journal.States() {
		if word := (Job{State: string(state)}).StateText(); word != string(state) {
			t.Errorf("%s is called %s", state, word)
		}
	}
	for _, result := range Results {
		j := Job{State: "completed", Result: result}
		if word, tone := j.StateText(), j.Tone(); word == "" || tone == "" || strings.Contains(word, "_") {
			t.Errorf("%s: %q, %q", result, word, tone)
		}
	}
	j := Job{State: "completed", Result: "no_pr"}
	if word, tone := j.StateText(), j.Tone(); word != "completed without a pull request" || tone != "wait" {
		t.Error(word, tone)
	}
}
