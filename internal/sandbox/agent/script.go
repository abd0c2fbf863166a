package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Outcome is the result of an instruction.
type Outcome string

// The outcomes. Edit is that of a prompt without a word of the script.
const (
	Edit     Outcome = "edit"      // the editor decides: completed, with a pull request if something changed, or failed
	PR       Outcome = "pr"        // completed with a pull request: the editor's built-in edit
	NoChange Outcome = "no_change" // completed, nothing changed
	Fail     Outcome = "failed"    // failed
	Archive  Outcome = "archived"  // archived
)

// Rule is the outcome of the prompts that contain Word, After so long.
type Rule struct {
	Word    string
	Outcome Outcome
	After   time.Duration
}

// Script decides by words. In a prompt with several words the first of each
// kind counts: the first with an outcome and the first with a duration.
type Script []Rule

// DefaultSlow is how long the word [sandbox:slow] takes without a duration.
const DefaultSlow = 30 * time.Second

// builtIn are the words every script has. [sandbox:slow=90s] is one more, with
// any duration in it.
var builtIn = Script{
	{Word: "[sandbox:pr]", Outcome: PR},
	{Word: "[sandbox:no-change]", Outcome: NoChange},
	{Word: "[sandbox:fail]", Outcome: Fail},
	{Word: "[sandbox:archive]", Outcome: Archive},
	{Word: "[sandbox:slow]", After: DefaultSlow},
}

var slow = regexp.MustCompile(`\[sandbox:slow=([0-9a-zµ.]{1,20})\]`)

// Match returns the outcome and duration of prompt; without words, Edit and after.
func (s Script) Match(prompt string, after time.Duration) Rule {
	found := Rule{Outcome: Edit, After: after}
	outcomeAt, afterAt := len(prompt), len(prompt)
	if m := slow.FindStringSubmatchIndex(prompt); m != nil {
		if d, err := time.ParseDuration(prompt[m[2]:m[3]]); err == nil {
			found.After, afterAt = d, m[0]
		}
	}
	for _, r := range append(s[:len(s):len(s)], builtIn...) {
		at := strings.Index(prompt, r.Word)
		if at < 0 {
			continue
		}
		if r.Outcome != "" && at < outcomeAt {
			found.Outcome, outcomeAt = r.Outcome, at
		}
		if r.After > 0 && at < afterAt {
			found.After, afterAt = r.After, at
		}
	}
	return found
}

// maxScript limits a script file.
const maxScript = 1 << 20

// ReadScript reads a script file: a JSON object from words to
// {"outcome": "pr" | "no_change" | "failed" | "archived" | "edit", "after": "30s"},
// at least one of the two. Words of the file go before the built-in ones where
// both are at one place. An error names the file, the word and the rule.
func ReadScript(path string) (s Script, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("agent script %s: %w", path, err)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err == nil && len(text) > maxScript {
		err = fmt.Errorf("want at most %d bytes", maxScript)
	}
	if err != nil {
		return nil, err
	}
	return parseScript(text)
}

// parseScript reads the object token by token, so that a word that comes twice is an
// error and does not replace the first one.
func parseScript(text []byte) (s Script, err error) {
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
		r := Rule{Word: word.(string)}
		var value struct {
			Outcome Outcome
			After   string
		}
		err = d.Decode(&value)
		if err == nil && value.After != "" {
			if r.After, err = time.ParseDuration(value.After); err != nil || r.After <= 0 {
				err = fmt.Errorf("after %.40q: want a duration above 0, such as 30s", value.After)
			}
		}
		r.Outcome = value.Outcome
		switch {
		case err != nil:
		case slices.ContainsFunc(s, func(other Rule) bool { return other.Word == r.Word }):
			err = errors.New("is there twice; want it once")
		case !slices.Contains([]Outcome{"", Edit, PR, NoChange, Fail, Archive}, r.Outcome):
			err = fmt.Errorf("outcome %.40q: want edit, pr, no_change, failed or archived", r.Outcome)
		case r.Word == "" || r.Outcome == "" && r.After == 0:
			err = errors.New("want a word that is not empty with an outcome, an after, or both")
		}
		if err != nil {
			return nil, fmt.Errorf("word %.60q: %w", r.Word, err)
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
