package prompts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/schedule"
)

// samePrompt compares prompts, apart from the lines of their files.
var samePrompt = cmp.Options{
	cmpopts.IgnoreUnexported(Prompt{}),
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b schedule.Cron) bool { return a.String() == b.String() }),
}

// TestWriteRead: what is written reads as what was meant, whatever is in it.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyPrompt(t)
		data, err := encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, findings := parseFile(want.Path, data, Rules{})
		if len(findings) > 0 {
			t.Fatalf("%s\n%v", data, findings)
		}
		want.Digest = digest(want)
		if want.ID == "" {
			want.ID = want.Path
		}
		if diff := cmp.Diff(want, got, samePrompt); diff != "" {
			t.Fatalf("%s\n%s", data, diff)
		}
	})
}

// anyPrompt draws a prompt that keeps every rule.
func anyPrompt(t *rapid.T) Prompt {
	p := Prompt{
		Path:           "a/b.md",
		ID:             rapid.StringMatching(`|[a-zA-Z0-9][a-zA-Z0-9._/-]{0,199}`).Draw(t, "id"),
		Project:        rapid.StringMatching(`|[A-Za-z0-9_-]{1,128}`).Draw(t, "project"),
		Title:          rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~äöü☃]{1,40}`)).Draw(t, "title"),
		ConcurrencyKey: rapid.StringMatching(`|[a-z0-9][a-z0-9.]{0,9}`).Draw(t, "key"),
		OnUnknown:      rapid.SampledFrom([]OnUnknown{Hold, Resubmit}).Draw(t, "on_unknown"),
		Body:           anyText(t, "body"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "follow_ups") {
		p.FollowUps = append(p.FollowUps, anyText(t, "follow_up"))
	}
	from := rapid.Int64Range(0, 4e9).Draw(t, "not_before")
	to := rapid.Int64Range(from+1, 5e9).Draw(t, "expires")
	if rapid.Bool().Draw(t, "bounds") {
		p.NotBefore, p.Expires = time.Unix(from, 0).UTC(), time.Unix(to/86400*86400+86400, 0).UTC()
	}
	if rapid.Bool().Draw(t, "recurs") {
		p.Schedule, _ = schedule.ParseCron(rapid.SampledFrom([]string{"@weekly", "17 * * * *", "*/5 1-3 * jan mon,fri"}).Draw(t, "schedule"))
	} else {
		p.DependsOn = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}(/[ "':#ä]x)?`), 0, 4, rapid.ID).Draw(t, "depends_on")
	}
	return p
}

// anyText draws text that is not empty, with what YAML could take for its own.
func anyText(t *rapid.T, label string) string {
	words := rapid.OneOf(
		rapid.SampledFrom([]string{"---", "...", "\n", "\n\n", "  ", "\t", "- ", "# ", ": ", "'", `"`, `\`, "[[", "{{", "&a", "*a", "!!str", "|", ">", "%TAG", "<<", "\u2028", "\u00A0", "\uFEFF", "😀", "true", "~", "@"}),
		rapid.StringMatching(`[ -~äé]{1,12}`),
	)
	text, _ := trimBlank(strings.Join(rapid.SliceOfN(words, 0, 12).Draw(t, label), ""))
	if text == "" || strings.HasPrefix(text, bom) {
		return "x"
	}
	return text
}
