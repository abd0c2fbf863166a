package prompts

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/schedule"
)

// Limits of one prompt.
const (
	// MaxBytes is the most a file has, and the most its prompt and each of its
	// follow-ups have when rendered.
	MaxBytes = 64 << 10
	// MaxNameBytes is the most an id, path, title or concurrency key has.
	MaxNameBytes = 200
	// MaxDependsOn and MaxFollowUps are the longest lists.
	MaxDependsOn = 100
	MaxFollowUps = 20
)

// OnUnknown is what becomes of a prompt when nobody knows whether the service
// took it.
type OnUnknown string

// The values of on_unknown. Without the key it is Hold.
const (
	Hold     OnUnknown = "hold"     // it waits for the operator
	Resubmit OnUnknown = "resubmit" // it is sent once more
)

// Prompt is one prompt file that keeps every rule.
type Prompt struct {
	// ID is the key id of the front matter, else Path.
	ID string
	// Path is the file below the folder, with slashes.
	Path string
	// Project is the key project, else the only project there is. It is empty if
	// no project is configured and the file names none.
	Project string
	Title   string
	// NotBefore and Expires bound when the prompt may begin: [NotBefore, Expires).
	// They are in UTC; the zero time is no bound.
	NotBefore, Expires time.Time
	// Schedule is of a prompt that recurs, see Recurs.
	Schedule schedule.Cron
	// DependsOn are ids of prompts that must be completed first.
	DependsOn []string
	// FollowUps are messages for the job, one after the other once it is completed.
	// Of a template they are templates too.
	FollowUps      []string
	ConcurrencyKey string
	OnUnknown      OnUnknown
	// Template reports whether Body and FollowUps have [[ ]] to render.
	Template bool
	// Body is the prompt: newlines are \n, blank lines before it and white space
	// after it are not part of it.
	Body string
	// Digest tells whether what the prompt says has changed: project, title,
	// template, body and follow-ups. When it runs is not part of it, nor where its
	// file lies and how that is written.
	Digest string

	bodyLine      int   // line of the file on which Body begins
	followUpLines []int // line of each follow-up
	dependsLines  []int // line of each of DependsOn
	idLine        int   // line of the key id, 0 without
}

// Recurs reports whether the prompt has a schedule, and so a job for each firing.
func (p Prompt) Recurs() bool { return p.Schedule.String() != "" }

// HasID reports whether the file gives the prompt an id. Without one it is another
// prompt wherever it lies.
func (p Prompt) HasID() bool { return p.idLine != 0 || p.ID != p.Path }

// digest is Prompt.Digest.
func digest(p Prompt) string {
	h := sha256.New()
	for _, part := range append([]string{"1", p.Project, p.Title, strconv.FormatBool(p.Template), p.Body}, p.FollowUps...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Rules are what files are held against besides their form.
type Rules struct {
	// Projects are those configured. With one, it is the default; with none, the
	// key project is not checked.
	Projects []string
	// Known reports whether an id was a prompt once, though its file is gone: other
	// prompts may depend on it. It may be nil.
	Known func(id string) bool
}
