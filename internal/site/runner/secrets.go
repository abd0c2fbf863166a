package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/docgauge/docgauge/internal/git"
)

// Variable is a variable that the agent gets by name. The value of one that is not plain is a secret.
type Variable struct {
	Name, Value string
	Plain       bool
}

// MinSecret is the length in bytes below which a value cannot be told from other text.
const MinSecret = 8

// secrets returns the variables with secrets, the longest value first, also as JSON has them.
func (r *Repo) secrets() (all []Variable) {
	for _, v := range r.options.Env {
		if v.Value = strings.TrimSpace(v.Value); v.Plain || len(v.Value) < MinSecret {
			continue
		}
		all = append(all, v)
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v.Value)
		if quoted != v.Value {
			all = append(all, Variable{Name: v.Name, Value: quoted})
		}
	}
	slices.SortFunc(all, func(a, b Variable) int { return cmp.Compare(len(b.Value), len(a.Value)) })
	return all
}

// environ returns the variables of the agent as the environment has them.
func (r *Repo) environ() (env []string) {
	for _, v := range r.options.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

const hidden = "[redacted]"

// redact returns text without secrets, also without one whose end was cut off.
func redact(text string, secrets []Variable) string {
	var out bytes.Buffer
	d := &redactor{to: &out, secrets: secrets}
	_, _ = d.Write([]byte(text))
	_ = d.flush()
	return out.String()
}

// redactor passes on what is written to it without secrets, and counts them, wherever the writes cut them.
type redactor struct {
	to      io.Writer
	secrets []Variable // the longest first

	mu    sync.Mutex
	found map[string]int // by the names of the variables
	rest  []byte         // the end of what was written, which a secret may begin with
}

func (d *redactor) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begins := [256]bool{}
	for _, s := range d.secrets {
		begins[s.Value[0]] = true
	}
	text, shown, from, at := append(d.rest, p...), []byte(nil), 0, 0
	for ; at < len(text); at++ {
		if !begins[text[at]] {
			continue
		}
		secret, open := beginsWith(text[at:], d.secrets)
		if open {
			break
		}
		if secret.Value != "" {
			shown = append(append(shown, text[from:at]...), hidden...)
			at += len(secret.Value) - 1
			from = at + 1
			if d.found == nil {
				d.found = map[string]int{}
			}
			d.found[secret.Name]++
		}
	}
	_, err := d.to.Write(append(shown, text[from:at]...))
	d.rest = slices.Clone(text[at:])
	return len(p), err
}

// beginsWith returns the secret that text begins with; open means that more of the text may make it one, or a longer
// one.
func beginsWith(text []byte, secrets []Variable) (secret Variable, open bool) {
	for _, s := range secrets {
		switch {
		case bytes.HasPrefix(text, []byte(s.Value)):
			return s, false
		case len(text) < len(s.Value) && s.Value[:len(text)] == string(text):
			return Variable{}, true
		}
	}
	return Variable{}, false
}

// flush passes on the rest. It hides one that may be most of a secret.
func (d *redactor) flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rest) >= MinSecret {
		d.rest = []byte(hidden)
	}
	_, err := d.to.Write(d.rest)
	d.rest = nil
	return err
}

// scrubScript removes the files of a home that have one of the lines of $SECRETS.
const scrubScript = `export LC_ALL=C
find "$HOME" \( -type d ! -perm -700 -o -type f ! -perm -600 \) -exec chmod u+rwX {} \; &&
find "$HOME" -type f -exec sh -c '
	grep -qF -e "$SECRETS" -- "$@"
	[ $? = 1 ] || for f; do
		grep -qF -e "$SECRETS" -- "$f"
		case $? in 0) rm -f -- "$f" || exit 1;; 1) ;; *) exit 1;; esac
	done' sh {} +`

// scrub removes the files with secrets from the home of a job, or the home where that cannot be done.
func (r *Repo) scrub(ctx context.Context, w *workplace) error {
	var lines []string
	for _, s := range r.secrets() {
		for line := range strings.Lines(s.Value) {
			if line = strings.TrimSpace(line); len(line) >= MinSecret {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 || !r.options.OwnHome || ctx.Err() != nil {
		return nil //nolint:nilerr // what was interrupted is done again
	}
	if err := errors.Join(removeAll(w.tree()), removeAll(w.tmp()), w.make(true)); err != nil {
		return err
	}
	s := step{name: "home", command: scrubScript, timeout: git.Timeout,
		env: []string{"SECRETS=" + strings.Join(lines, "\n")}}
	if _, err := r.run(ctx, w, s); err != nil && ctx.Err() == nil {
		return removeAll(w.home())
	}
	return nil
}
