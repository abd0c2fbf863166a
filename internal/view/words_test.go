package view

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/journal"
)

func TestWords(t *testing.T) {
	for _, tc := range [][2]string{
		{Percent(1, 3), "33.3%"}, {Percent(1, 16), "6.3%"}, {Percent(0, 3), "0.0%"},
		{Percent(3, 3), "100%"}, {Percent(1, 0), "–"},
		{Growth(200, 199), "−0.5%"}, {Growth(1, 40), "+3900%"}, {Growth(0, 40), ""}, {Growth(40, 40), ""},
		{Growth(10000, 10001), ""},
		{Signed(1300), "+1,300"}, {Signed(-1300), "−1,300"}, {Signed(0), "0"},
		{OutcomeSummary{Merges: 40, Comparisons: 78, More: 9, Fewer: 2, ByChance: 3.9,
			Mean: &MeanChange{.06, .02, .1, 78, 31}}.Sentence(),
			"40 merges, 78 comparisons: 9 more, 2 fewer readers, " +
				"4 expected by chance. Mean change +6% (+2% to +10%), of 78 comparisons on 31 dates."},
		{OutcomeSummary{Merges: 3, Comparisons: 8, ByChance: .4, Mean: &MeanChange{-.06, -.12, 0, 7, 3}}.Sentence(),
			"3 merges, 8 comparisons: 0 more, 0 fewer readers, 0.4 expected by chance. Mean change −6% (−12% to " +
				"0%), of " +
				"7 comparisons on 3 dates, without 1 that could not be corrected."},
		{OutcomeSummary{Merges: 1, Comparisons: 1, More: 1, ByChance: .05}.Sentence(),
			"1 merge, 1 comparison: 1 more, " +
				"0 fewer readers, 0.05 expected by chance. No mean change yet: it needs corrected comparisons of " +
				"merges on " +
				"3 dates."},
		{OutcomeSummary{TooEarly: 3, NotEnoughData: 1}.Sentence(),
			"None judged yet: 3 too early, 1 without enough data."},
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
