package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

// Outcome is what becomes of an instruction.
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

// Match returns what becomes of prompt; no words are Edit after after.
func (s Script) Match(prompt string, after time.Duration) Rule {
	found := Rule{Outcome: Edit, After: after}
	outcomeAt, afterAt := len(prompt), len(prompt)
	if at, d, ok := matchSlow(prompt); ok {
		found.After, afterAt = d, at
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

func matchSlow(prompt string) (at int, d time.Duration, ok bool) {
	m := slow.FindStringSubmatchIndex(prompt)
	if m == nil {
		return 0, 0, false
	}
	d, err := time.ParseDuration(prompt[m[2]:m[3]])
	return m[0], d, err == nil
}

// maxScript bounds a script file.
const maxScript = 1 << 20

// ReadScript reads a script file: a JSON object from words to
// {"outcome": "pr" | "no_change" | "failed" | "archived" | "edit", "after": "30s"},
// at least one of the two. Words of the file go before the built-in ones where
// both are at one place. An error names the file, the word and the rule.
func ReadScript(path string) (Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("agent script: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err == nil && len(text) > maxScript {
		err = fmt.Errorf("want at most %d bytes", maxScript)
	}
	if err != nil {
		return nil, fmt.Errorf("agent script %s: %w", path, err)
	}
	s, err := parseScript(text)
	if err != nil {
		return nil, fmt.Errorf("agent script %s: %w", path, err)
	}
	return s, nil
}

// parseScript reads the object token by token, so that a word named twice is
// an error and not the last one.
func parseScript(text []byte) (Script, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New(`want one JSON object, such as {"[later]": {"outcome": "pr", "after": "30s"}}`)
	}
	var s Script
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		r, err := s.parseRule(d, t.(string))
		if err != nil {
			return nil, fmt.Errorf("word %.60q: %w", t, err)
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

func (s Script) parseRule(d *json.Decoder, word string) (Rule, error) {
	var value struct {
		Outcome Outcome
		After   string
	}
	if err := d.Decode(&value); err != nil {
		return Rule{}, err
	}
	r := Rule{Word: word, Outcome: value.Outcome}
	for _, other := range s {
		if other.Word == word {
			return r, errors.New("is there twice; want it once")
		}
	}
	switch value.Outcome {
	case "", Edit, PR, NoChange, Fail, Archive:
	default:
		return r, fmt.Errorf("outcome %.40q: want edit, pr, no_change, failed or archived", value.Outcome)
	}
	if value.After != "" {
		after, err := time.ParseDuration(value.After)
		if err != nil || after <= 0 {
			return r, fmt.Errorf("after %.40q: want a duration above 0, such as 30s", value.After)
		}
		r.After = after
	}
	if word == "" || value == (struct {
		Outcome Outcome
		After   string
	}{}) {
		return r, errors.New("want a word that is not empty with an outcome, an after, or both")
	}
	return r, nil
}
