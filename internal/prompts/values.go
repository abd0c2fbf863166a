package prompts

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

var nameForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,%d}$`, MaxNameBytes-1))

// text reads a value that is text. Numbers, dates, true and false need quotes, so
// that what is meant is what is written.
func (r *reader) text(name string, v *yaml.Node) (string, bool) {
	if v.Kind != yaml.ScalarNode {
		r.find(v.Line, "%s: want text, got %s", name, what(v))
		return "", false
	}
	if v.ShortTag() != "!!str" {
		r.find(v.Line, "%s: want text, got %s: put it in quotes", name, what(v))
		return "", false
	}
	return v.Value, true
}

// name reads a value of the form of an id.
func (r *reader) name(name string, v *yaml.Node) (string, bool) {
	s, ok := r.text(name, v)
	if ok && !nameForm.MatchString(s) {
		r.find(v.Line, "%s: %s: want 1 to %d letters, digits, dots, underscores, dashes or slashes, a letter or digit first", name, quote(s), MaxNameBytes)
		return "", false
	}
	return s, ok
}

func (r *reader) setID(name string, v *yaml.Node) {
	if s, ok := r.name(name, v); ok {
		r.prompt.ID, r.prompt.idLine = s, v.Line
	}
}

func (r *reader) setProject(name string, v *yaml.Node) {
	s, ok := r.text(name, v)
	switch {
	case !ok:
	case analytics.CheckProject(s) != nil:
		r.find(v.Line, "project: %s: want 1 to 128 letters, digits, underscores or dashes", quote(s))
	case len(r.rules.Projects) > 0 && !slices.Contains(r.rules.Projects, s):
		r.find(v.Line, "project: %s is not configured: want %s, or add it to DOCGAUGE_PROJECTS", s, list(r.rules.Projects))
	default:
		r.prompt.Project = s
	}
}

func (r *reader) setTitle(name string, v *yaml.Node) {
	s, ok := r.text(name, v)
	if !ok {
		return
	}
	problem := checkLine(s)
	if s == "" {
		problem = "empty: write one, or remove the key"
	}
	if problem != "" {
		r.find(v.Line, "title: %s", problem)
		return
	}
	r.prompt.Title = s
}

func (r *reader) setNotBefore(name string, v *yaml.Node) { r.prompt.NotBefore = r.time(name, v) }
func (r *reader) setExpires(name string, v *yaml.Node)   { r.prompt.Expires = r.time(name, v) }

// time reads a date or a time, also one that YAML takes for its own kind.
func (r *reader) time(name string, v *yaml.Node) time.Time {
	if tag := v.ShortTag(); v.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" {
		r.find(v.Line, "%s: want a date or a time, got %s", name, what(v))
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v.Value)
	if d, dateErr := analytics.ParseDate(v.Value); dateErr == nil {
		t, err = d.Time(), nil
	}
	if err != nil || t.Year() < 1970 {
		r.find(v.Line, "%s: %s: want a day that exists, 2026-01-31 (UTC), or a time, 2026-01-31T09:00:00Z", name, quote(v.Value))
		return time.Time{}
	}
	return t.UTC()
}

func (r *reader) setSchedule(name string, v *yaml.Node) {
	s, ok := r.text(name, v)
	if !ok {
		return
	}
	// The errors of a cron expression may quote it as it is.
	if problem := checkLine(s); problem != "" {
		r.find(v.Line, "schedule: %s", problem)
		return
	}
	cron, err := schedule.ParseCron(s)
	if err != nil {
		r.find(v.Line, "%s", err)
		return
	}
	r.prompt.Schedule = cron
}

func (r *reader) setTemplate(name string, v *yaml.Node) {
	if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!bool" {
		r.find(v.Line, "template: want true or false, got %s", what(v))
		return
	}
	// The library has taken it for one of true, True, TRUE, false, False, FALSE.
	r.prompt.Template = v.Value[0] == 't' || v.Value[0] == 'T'
}

func (r *reader) setOnUnknown(name string, v *yaml.Node) {
	s, ok := r.text(name, v)
	switch action := OnUnknown(s); {
	case !ok:
	case action != Hold && action != Resubmit:
		r.find(v.Line, "on_unknown: %s: want hold or resubmit", quote(s))
	default:
		r.prompt.OnUnknown = action
	}
}

func (r *reader) setConcurrencyKey(name string, v *yaml.Node) {
	if s, ok := r.name(name, v); ok {
		r.prompt.ConcurrencyKey = s
	}
}
