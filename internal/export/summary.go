package export

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/state"
)

// The outcomes of a run.
const (
	Success     = state.Success
	Deferred    = state.Deferred
	Failed      = state.Failed
	Interrupted = state.Interrupted
)

// failureList has errors; in JSON they are their messages.
type failureList []error

// MarshalJSON writes the messages.
func (f failureList) MarshalJSON() ([]byte, error) {
	texts := []string{}
	for _, err := range f {
		texts = append(texts, err.Error())
	}
	return json.Marshal(texts)
}

// Summary is the report of a run; its JSON keys are stable.
type Summary struct {
	Outcome string `json:"outcome"`
	// Committed counts windows that every sink has, Waiting those that a sink still lacks.
	Committed int `json:"windows_committed"`
	Waiting   int `json:"windows_waiting_for_a_sink"`
	Recovered int `json:"windows_delivered_from_the_spool"`
	// Open counts running windows that were read.
	Open      int   `json:"open_windows_read"`
	Rows      int64 `json:"rows"`
	Requests  int   `json:"requests"`
	Throttled int   `json:"requests_throttled"`
	// Drifted counts readings that started over, Mispredicted pages that were requested
	// although they do not exist.
	Drifted      int `json:"readings_drifted"`
	Mispredicted int `json:"pages_mispredicted"`
	// Unverified counts windows that were committed unverified, MovedRows and
	// RepeatedRows their suspect rows (analytics.Provenance).
	Unverified   int   `json:"windows_unverified"`
	MovedRows    int64 `json:"rows_moved"`
	RepeatedRows int64 `json:"rows_repeated"`
	// Suspect counts windows that were committed although their pages add up to fewer
	// visitors than the site has.
	Suspect int `json:"windows_suspect"`
	// SameNumbers are projects of which all windows that were read have the same totals, whatever their length.
	SameNumbers []string `json:"projects_with_equal_windows,omitempty"`
	// OtherModes are the changes of the mode by which the service counts people.
	OtherModes []ModeChange `json:"modes_changed,omitempty"`
	// SetAside counts windows that failed alone and are read again later.
	SetAside int `json:"windows_set_aside"`
	// StillAside counts windows that were set aside before the run, alone or with their project or report, and
	// that were not read yet.
	StillAside int `json:"windows_still_set_aside"`
	// Early counts windows that were planned and are not exported because they begin before the service has data.
	Early int `json:"windows_before_data"`
	// Left counts windows that are still due.
	Left         int       `json:"windows_left"`
	LeftRequests int       `json:"requests_left"`
	Resume       time.Time `json:"next_request_at,omitzero"`
	Finish       time.Time `json:"finished_by,omitzero"`
	// Named is how far the reading of windows named by their dates is; nil for any other run.
	Named  *coverage.Named `json:"named_reading,omitempty"`
	Errors failureList     `json:"errors"`
	// Warnings are about windows with invalid responses.
	Warnings failureList `json:"warnings"`

	// KeyRefused: the service refused the key, and the next run's requests will be refused too.
	KeyRefused bool `json:"key_refused"`

	Took time.Duration `json:"-"`
	// Ended is when the run ended.
	Ended time.Time `json:"-"`
	// modes has the mode by which people of each project were counted last.
	modes map[string]analytics.Humans
	// alike has the readings of each project.
	alike map[string]*analytics.Alike
	// BudgetSpent reports whether the budget is why windows are left.
	BudgetSpent bool `json:"-"`
	// replan: windows may be due that were not in the plan.
	replan bool
	// wanted is how many requests must be free for the first window that is left; 0 is one.
	wanted int
}

// ModeChange is a window whose people were counted by another mode than in the reading before.
type ModeChange struct {
	analytics.Key
	Before analytics.Humans `json:"humans_before"`
	Now    analytics.Humans `json:"humans"`
}

// lastModes returns the mode of the last reading of visitors of each project.
func lastModes(l coverage.Ledger) map[string]analytics.Humans {
	modes, read := map[string]analytics.Humans{}, map[string]time.Time{}
	for e := range l.All() {
		if e.Report == analytics.VisitorsReport && !e.ExportedAt.Before(read[e.Project]) {
			modes[e.Project], read[e.Project] = e.Humans, e.ExportedAt
		}
	}
	return modes
}

// Good reports whether the run did all it could: windows that the budget defers are not failures.
func (s *Summary) Good() bool { return s.Outcome == Success || s.Outcome == Deferred }

// LogProblems logs the errors and warnings of a run.
func LogProblems(log *slog.Logger, s Summary) {
	for _, err := range s.Errors {
		log.Error("export", "error", err)
	}
	for _, err := range s.Warnings {
		log.Warn("window skipped", "error", err)
	}
}

// addReading adds a reading of a window.
func (s *Summary) addReading(rev analytics.Revision) {
	if before, known := s.modes[rev.Project]; rev.Report == analytics.VisitorsReport {
		if known && before != rev.Humans {
			s.changeMode(ModeChange{rev.Key, before, rev.Humans})
		}
		if s.modes == nil {
			s.modes = map[string]analytics.Humans{}
		}
		s.modes[rev.Project] = rev.Humans
	}
	if s.alike == nil {
		s.alike = map[string]*analytics.Alike{}
	}
	if s.alike[rev.Project] == nil {
		s.alike[rev.Project] = &analytics.Alike{}
	}
	s.alike[rev.Project].Add(rev)
	if _, same := s.alike[rev.Project].Totals(); !same {
		s.SameNumbers = slices.DeleteFunc(s.SameNumbers, func(p string) bool { return p == rev.Project })
	} else if !slices.Contains(s.SameNumbers, rev.Project) {
		s.SameNumbers = append(s.SameNumbers, rev.Project)
	}
}

// changeMode keeps one change of each project: the mode before the run, and the last one.
func (s *Summary) changeMode(c ModeChange) {
	i := slices.IndexFunc(s.OtherModes, func(o ModeChange) bool { return o.Project == c.Project })
	if i < 0 {
		s.OtherModes = append(s.OtherModes, c)
		return
	}
	if c.Before = s.OtherModes[i].Before; c.Before == c.Now {
		s.OtherModes = slices.Delete(s.OtherModes, i, i+1)
	} else {
		s.OtherModes[i] = c
	}
}

// AddErrors adds those that are not nil, unless one before says the same: a full disk refuses every write.
func (s *Summary) AddErrors(errs ...error) {
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(s.Errors, func(known error) bool {
			return strings.Contains(known.Error(), err.Error())
		}) {
			s.Errors = append(s.Errors, err)
		}
	}
}

func (s *Summary) outcome(ctx context.Context) string {
	switch {
	case ctx.Err() != nil:
		return Interrupted
	case len(s.Errors) > 0 || s.SetAside > 0 && s.Committed+s.Waiting+s.Recovered+s.Open == 0:
		return Failed // also where everything that was due was set aside
	case s.Left > 0:
		return Deferred
	}
	return Success
}

// message returns the text that the state keeps about a run's failures.
func (s *Summary) message() string {
	var texts []string
	for _, err := range s.Errors {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}
