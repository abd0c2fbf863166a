package prompts

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"go.yaml.in/yaml/v3"
)

// key is one key of the front matter. The table below is all there are; the
// documentation is made from it.
type key struct {
	name, form, meaning string
	set                 func(r *reader, name string, value *yaml.Node)
	// get writes the key, as lines; none if the prompt does not have it.
	get func(p Prompt) []string
}

// keys are in the order in which a prompt file is written.
var keys = []key{
	{
		"id", "letters, digits, `.`, `_`, `-` and `/`, a letter or digit first",
		"identity of the prompt; without it, its path below the folder. A prompt of another id is another prompt, and runs",
		(*reader).setID,
		func(p Prompt) []string { return keyed("id", quoted(p.ID)) },
	},
	{
		"project", "a project id",
		"needed where several are configured",
		(*reader).setProject,
		func(p Prompt) []string { return keyed("project", quoted(p.Project)) },
	},
	{
		"title", "one line of text",
		"for people, and for templates",
		(*reader).setTitle,
		func(p Prompt) []string { return keyed("title", quoted(p.Title)) },
	},
	{
		"not_before", "`YYYY-MM-DD` (UTC) or RFC 3339",
		"the prompt waits until then",
		(*reader).setNotBefore,
		func(p Prompt) []string { return keyed("not_before", instantOf(p.NotBefore)) },
	},
	{
		"expires", "`YYYY-MM-DD` (UTC) or RFC 3339",
		"from then on it does not begin any more; a date is the beginning of that day",
		(*reader).setExpires,
		func(p Prompt) []string { return keyed("expires", instantOf(p.Expires)) },
	},
	{
		"schedule", "cron, five fields, UTC, or `@daily` and the like",
		"a new job each time; not together with `depends_on`",
		(*reader).setSchedule,
		func(p Prompt) []string { return keyed("schedule", quoted(p.Schedule.String())) },
	},
	{
		"depends_on", "list of ids",
		"waits until all of them are completed; they must not recur",
		(*reader).setDependsOn,
		func(p Prompt) []string { return elements("depends_on", p.DependsOn) },
	},
	{
		"follow_ups", "list of texts, at most 20",
		"messages to the same job, each sent when the job is completed",
		(*reader).setFollowUps,
		func(p Prompt) []string { return elements("follow_ups", p.FollowUps) },
	},
	{
		"concurrency_key", "as `id`",
		"of the prompts with the same key, one job at a time",
		(*reader).setConcurrencyKey,
		func(p Prompt) []string { return keyed("concurrency_key", quoted(p.ConcurrencyKey)) },
	},
	{
		"on_unknown", "`hold` (default) or `resubmit`",
		"what to do if nobody knows whether the service took the prompt: wait for `jobs resolve`, or send it once more and risk two jobs",
		(*reader).setOnUnknown,
		func(p Prompt) []string { return keyed("on_unknown", unless(string(p.OnUnknown), string(Hold))) },
	},
	{
		"template", "`true` or `false`",
		"the body and the follow-ups have `[[ ]]` to fill in",
		(*reader).setTemplate,
		func(p Prompt) []string { return keyed("template", unless(strconv.FormatBool(p.Template), "false")) },
	},
}

func known(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// didYouMean names the nearest key, or all of them.
func didYouMean(name string) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	edits := func(k string) int {
		return levenshtein.Distance(strings.ReplaceAll(strings.ToLower(name), "-", "_"), k, nil)
	}
	best := slices.MinFunc(names, func(a, b string) int { return cmp.Compare(edits(a), edits(b)) })
	if edits(best) > min(3, len(best)-1) {
		return "want one of " + strings.Join(names, ", ")
	}
	return "did you mean " + best + "?"
}
