package prompts

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/schedule"
)

// Limits of one prompt.
const (
	// MaxBytes is the maximum size of a file, and of its rendered prompt and each of
	// its rendered follow-ups.
	MaxBytes = 64 << 10
	// maxNameBytes is the maximum length of an id, path, title or concurrency key.
	maxNameBytes = 200
	// maxDependsOn, maxOwnPages and maxFollowUps are the maximum lengths of the lists.
	maxDependsOn = 100
	maxOwnPages  = 100
	maxFollowUps = 20
)

// Prompt is one prompt file that keeps every rule.
type Prompt struct {
	// ID is the key id of the front matter, or Path without that key.
	ID string
	// Path is the file below the folder, with slashes.
	Path string
	// Project is the key project, or the only configured project. It is empty if
	// no project is configured and the file names none.
	Project string
	Title   string
	// NotBefore and Expires limit when the prompt may begin: [NotBefore, Expires).
	// They are in UTC; the zero time means no limit.
	NotBefore, Expires time.Time
	// Schedule is only set for a prompt that recurs, see Recurs.
	Schedule schedule.Cron
	// DependsOn are ids of prompts that must be completed first; of those in Merged, the
	// pull request must be merged.
	DependsOn, Merged []string
	// Pages are the paths of the pages that it is about, for changed files that do not show
	// that.
	Pages []string
	// FollowUps are messages for the job, sent one after the other once it is
	// completed. In a template they are templates too.
	FollowUps      []string
	ConcurrencyKey string
	// Resubmit: if it is not known whether the service accepted it, it is sent once more
	// (on_unknown: resubmit) instead of waiting for the operator (hold, the default).
	Resubmit bool
	// Template reports whether Body and FollowUps have [[ ]] to render.
	Template bool
	// Body is the prompt: its newlines are \n; blank lines before it and white space
	// after it are removed.
	Body string
	// Digest changes when the content changes: project, title, template, body and
	// follow-ups. It does not depend on when the prompt runs, on where its file is,
	// or on how the file is written.
	Digest string

	bodyLine      int   // line of the file on which Body begins
	followUpLines []int // line of each follow-up
	dependsLines  []int // line of each of DependsOn
	idLine        int   // line of the key id, 0 without
}

// Recurs reports whether the prompt has a schedule, and so a job for each firing.
func (p Prompt) Recurs() bool { return p.Schedule.String() != "" }

// HasID reports whether the file gives the prompt an id. Without an id, the prompt
// becomes another one when its file is moved.
func (p Prompt) HasID() bool { return p.idLine != 0 || p.ID != p.Path }

// digest is Prompt.Digest.
func digest(p Prompt) string {
	h := sha256.New()
	parts := []string{"1", p.Project, p.Title, strconv.FormatBool(p.Template), p.Body}
	for _, part := range append(parts, p.FollowUps...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Rules are the rules for files besides their format.
type Rules struct {
	// Projects are the configured ones. One project is the default; with none, the
	// key project is not checked.
	Projects []string
	// Known returns the ids that were prompts once, though their files are gone: other prompts may depend on them. It
	// is called at most once a scan. nil: none are.
	Known func(ids []string) []string
}

// Finding is one rule that a file breaks, or why it cannot be rendered.
type Finding struct {
	// Path is the file below the folder, quoted if it cannot be printed.
	Path string `json:"path"`
	// Line counts from 1; 0 is the file as a whole.
	Line int `json:"line,omitempty"`
	// Text names the thing, the rule and the remedy, on one line.
	Text string `json:"text"`

	cause error
}

// String is "path:line: text".
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

func (f Finding) Error() string { return f.String() }

// Unwrap returns the cause: ErrNoNumbers, errNothing or the error of the numbers; else nil.
func (f Finding) Unwrap() error { return f.cause }

// Error is why a prompt cannot be written: its name, or one finding a line.
type Error struct{ error }

func (e Error) Unwrap() error { return e.error }

// sorted orders findings by path and line, and removes duplicates.
func sorted(findings []Finding) []Finding {
	compare := func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	}
	slices.SortFunc(findings, compare)
	return slices.CompactFunc(findings, func(a, b Finding) bool { return compare(a, b) == 0 })
}
