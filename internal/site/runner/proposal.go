package runner

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
)

const (
	// maxPages is the number of files that a pull request names, maxNames the size in bytes of their list, and maxShownPrompt
	// the size of the prompts: GitHub takes 65,536 characters.
	maxPages       = 30
	maxNames       = 16 << 10
	maxShownPrompt = 16 << 10
	// clockSkew is by how much the clock of a code host may differ.
	clockSkew = 24 * time.Hour
)

// proposal returns the pull request of j, whose change is c.
func (r *Repo) proposal(ctx context.Context, j Job, c Change) (codehost.Proposal, error) {
	p := codehost.Proposal{
		Branch: c.Branch, Base: r.Source().Ref, Title: r.title(j.Title, j.Prompts[0]),
		Labels: r.options.Labels, Draft: r.options.Draft,
		Ended: j.PRLink == nil, // a person may have ended it before its link was in the journal
		Since: j.CreatedAt.Add(-clockSkew),
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if j.Said != "" {
		add("> %s", strings.ReplaceAll(codehost.Neutral(strings.TrimSpace(j.Said)), "\n", "\n> "))
	}
	var files bytes.Buffer
	if err := r.git.Stream(ctx, &files, "", "diff", "--name-only", "--no-renames", "-z", "--end-of-options", c.Base,
		c.Head, "--"); err != nil {
		return p, err
	}
	names := strings.Split(strings.TrimSuffix(files.String(), "\x00"), "\x00")
	list := "Files changed:\n"
	more := len(names)
	for _, name := range names[:min(len(names), maxPages)] {
		name = "\n- `" + codehost.Neutral(strings.ReplaceAll(strings.Map(printable, name), "`", "'")) + "`"
		if len(list)+len(name) > maxNames {
			break
		}
		list += name
		more--
	}
	if more > 0 {
		list += fmt.Sprintf("\n- and %d more", more)
	}
	add("%s", list)
	about := "Opened by docgauge for agent job `" + j.ID + "`."
	if cost := j.cost.value(); cost != nil {
		about += fmt.Sprintf(" Cost so far: %.4f %s.", *cost, costUnit)
	}
	add("%s", about)
	if !r.options.HidePrompt {
		prompts := strings.Join(j.Prompts[:min(j.Worked+1, len(j.Prompts))], "\n\n")
		if len(prompts) > maxShownPrompt {
			prompts = strings.ToValidUTF8(prompts[:maxShownPrompt], "") + "\n…"
		}
		fence := "```"
		for strings.Contains(prompts, fence) {
			fence += "`"
		}
		add("<details><summary>Prompt</summary>\n\n%s\n%s\n%[1]s\n\n</details>", fence, codehost.Neutral(strings.TrimSpace(prompts)))
	}
	p.Body = strings.Join(parts, "\n\n")
	return p, nil
}

// title returns a title, or else the first line of a prompt that may be published.
func (r *Repo) title(title, prompt string) string {
	if title == "" && !r.options.HidePrompt {
		title = Subject(prompt)
	}
	return codehost.Neutral(cmp.Or(title, noSubject))
}
