package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// Outcomes of an instruction. outcomeEdit is the outcome of a prompt without a word of the script.
const (
	outcomeEdit     = "edit"      // the editor decides: completed, with a pull request if something changed, or failed
	outcomePR       = "pr"        // completed with a pull request: the editor's built-in edit
	outcomeNoChange = "no_change" // completed, nothing changed
	outcomeFailed   = "failed"    // failed
	outcomeArchived = "archived"  // archived
)

var outcomes = []string{outcomeEdit, outcomePR, outcomeNoChange, outcomeFailed, outcomeArchived}

// rule is the outcome and duration of the prompts that contain word.
type rule struct {
	word, outcome string
	after         time.Duration
}

// script decides by words. In a prompt with several words the first of each kind counts: the
// first with an outcome and the first with a duration.
type script []rule

// builtIn are the words of every script. [sandbox:slow=90s] is one more, with any duration.
var builtIn = script{
	{word: "[sandbox:pr]", outcome: outcomePR},
	{word: "[sandbox:no-change]", outcome: outcomeNoChange},
	{word: "[sandbox:fail]", outcome: outcomeFailed},
	{word: "[sandbox:archive]", outcome: outcomeArchived},
	{word: "[sandbox:slow]", after: 30 * time.Second},
}

var slow = regexp.MustCompile(`\[sandbox:slow=([0-9a-zµ.]{1,20})\]`)

// match returns the outcome and duration of prompt; without words, outcomeEdit and after.
func (s script) match(prompt string, after time.Duration) rule {
	found := rule{outcome: outcomeEdit, after: after}
	outcomeAt, afterAt := len(prompt), len(prompt)
	if m := slow.FindStringSubmatchIndex(prompt); m != nil {
		if d, err := time.ParseDuration(prompt[m[2]:m[3]]); err == nil {
			found.after, afterAt = d, m[0]
		}
	}
	for _, r := range slices.Concat(s, builtIn) {
		at := strings.Index(prompt, r.word)
		if at < 0 {
			continue
		}
		if r.outcome != "" && at < outcomeAt {
			found.outcome, outcomeAt = r.outcome, at
		}
		if r.after > 0 && at < afterAt {
			found.after, afterAt = r.after, at
		}
	}
	return found
}

// agentScript decides about instructions by words in their prompts.
type agentScript struct {
	words script
	after time.Duration
	// Priced: an instruction without the word [sandbox:cost=0.42] reports a cost too, which depends on its
	// prompt.
	Priced bool
}

// readAgentScript returns the built-in words and the words of a file, see readScript; empty = none. An instruction
// that has no duration by script takes after.
func readAgentScript(path string, after time.Duration) (agentScript, error) {
	words, err := readScript(path)
	return agentScript{words: words, after: after}, err
}

// editor returns e under the script.
func (s agentScript) editor(e runner.Editor) runner.Editor { return scripted{e, s} }

// scripted is an Editor under a script.
type scripted struct {
	runner.Editor
	script agentScript
}

var cost = regexp.MustCompile(`\[sandbox:cost=([0-9]{1,6}(?:\.[0-9]{1,6})?)\]`)

// tokensPerDollar makes the number of tokens fit the cost.
const tokensPerDollar = 250_000

// report is what an agent says that it used for a prompt; nil if it says nothing.
func (s agentScript) report(prompt string) *runner.Report {
	dollars := 0.0
	if m := cost.FindStringSubmatch(prompt); m != nil {
		dollars, _ = strconv.ParseFloat(m[1], 64) // the expression matches numbers alone
	} else if s.Priced {
		dollars = float64(200+crc32.ChecksumIEEE([]byte(prompt))%1400) / 1000
	} else {
		return nil
	}
	return &runner.Report{Cost: &dollars, Tokens: new(int64(dollars * tokensPerDollar))}
}

// Edit waits as long as the script wants, then does what the script wants.
func (s scripted) Edit(ctx context.Context, t runner.Task) (r runner.Result, err error) {
	defer func() {
		if r.Report == nil {
			r.Report = s.script.report(t.Prompt)
		}
	}()
	rule := s.script.words.match(t.Prompt, s.script.after)
	if err := clock.Sleep(ctx, rule.after); err != nil {
		return runner.Result{}, err
	}
	switch rule.outcome {
	case outcomeNoChange:
		return runner.Result{Change: t.Last}, nil
	case outcomeFailed:
		return runner.Result{}, errors.New("the script wants it to fail")
	case outcomeArchived:
		return runner.Result{Change: t.Last, Archive: true}, nil
	}
	return s.Editor.Edit(ctx, t)
}

// notesDir is the directory of the built-in edit.
const notesDir = "agent-jobs"

// builtIn returns the edit for repositories (see runner.RepoOptions.Instead) that takes the place
// of the command where the script wants a pull request, or always.
func (s agentScript) builtIn(always bool) func(dir string, t runner.Task) (bool, error) {
	return func(dir string, t runner.Task) (bool, error) {
		if !always && s.words.match(t.Prompt, 0).outcome != outcomePR {
			return false, nil
		}
		return true, addLine(dir, t)
	}
}

// addLine is the built-in edit: it adds the subject of the prompt as a line to the job's
// file. It follows no link out of the worktree.
func addLine(dir string, t runner.Task) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("built-in edit: %w", err)
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(notesDir, 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(notesDir+"/"+t.Job+".md", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "- %s\n", runner.Subject(t.Prompt))
	return errors.Join(err, f.Close())
}

// maxScript limits a script file, in bytes.
const maxScript = 1 << 20

// readScript reads a script file: a JSON object from words to
// {"outcome": "pr" | "no_change" | "failed" | "archived" | "edit", "after": "30s"}, at least one
// of the two. Words of the file take precedence over built-in ones at the same place. An error
// names the file, the word and the rule. Without a path, the script has no words.
func readScript(path string) (s script, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err == nil && len(text) > maxScript {
		err = fmt.Errorf("want at most %d bytes", maxScript)
	}
	if err == nil {
		s, err = parseScript(text)
	}
	if err != nil {
		return nil, fmt.Errorf("agent script %s: %w", path, err)
	}
	return s, nil
}

// parseScript reads the object token by token, so that a duplicate word is an error and does
// not replace the first one.
func parseScript(text []byte) (s script, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New(`want one JSON object, such as {"[later]": {"outcome": "pr", "after": "30s"}}`)
	}
	for d.More() {
		word, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value struct{ Outcome, After string }
		err = d.Decode(&value)
		r := rule{word: word.(string), outcome: value.Outcome}
		if err == nil && value.After != "" {
			if r.after, err = time.ParseDuration(value.After); err != nil || r.after <= 0 {
				err = fmt.Errorf("after %.40q: want a duration above 0, such as 30s", value.After)
			}
		}
		switch {
		case err != nil:
		case slices.ContainsFunc(s, func(other rule) bool { return other.word == r.word }):
			err = errors.New("is there twice; want it once")
		case r.outcome != "" && !slices.Contains(outcomes, r.outcome):
			err = fmt.Errorf("outcome %.40q: want edit, pr, no_change, failed or archived", r.outcome)
		case r.word == "" || r.outcome == "" && r.after == 0:
			err = errors.New("want a word that is not empty with an outcome, an after, or both")
		}
		if err != nil {
			return nil, fmt.Errorf("word %.60q: %w", r.word, err)
		}
		s = append(s, r)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one JSON object, found more after it")
	}
	return s, nil
}
