package export

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
)

// The outcomes of a run.
const (
	Success     = state.Success
	Deferred    = state.Deferred
	Failed      = state.Failed
	Interrupted = state.Interrupted
)

// Summary is what a run reports; its JSON keys are stable.
type Summary struct {
	Outcome      string    `json:"outcome"`
	Committed    int       `json:"windows_committed"`
	Waiting      int       `json:"windows_waiting_for_a_sink"`
	Recovered    int       `json:"windows_delivered_from_the_spool"`
	Open         int       `json:"open_windows_read"`
	Rows         int64     `json:"rows"`
	Requests     int       `json:"requests"`
	Throttled    int       `json:"requests_throttled"`
	Drifted      int       `json:"readings_drifted"`
	Mispredicted int       `json:"pages_mispredicted"`
	Unverified   int       `json:"windows_unverified"`
	MovedRows    int64     `json:"rows_moved"`
	RepeatedRows int64     `json:"rows_repeated"`
	Suspect      int       `json:"windows_suspect"`
	SetAside     int       `json:"windows_set_aside"`
	Left         int       `json:"windows_left"`
	LeftRequests int       `json:"requests_left"`
	Resume       time.Time `json:"next_request_at,omitzero"`
	Finish       time.Time `json:"finished_by,omitzero"`
	// Named is how far the reading of windows named by their dates is; nil for any other run.
	Named  *coverage.Named `json:"named_reading,omitempty"`
	Errors []string        `json:"errors"`
	// Warnings are about windows with invalid responses.
	Warnings []string `json:"warnings"`

	// KeyRefused: the service refused the key, and so it will the next run's.
	KeyRefused bool `json:"key_refused"`

	Took time.Duration `json:"-"`
	// Ended is when the run ended.
	Ended       time.Time `json:"-"`
	BudgetSpent bool      `json:"-"`
}

// Good reports whether the run did all it could: what the budget defers is no failure.
func (s *Summary) Good() bool { return s.Outcome == Success || s.Outcome == Deferred }

// LogProblems logs what went wrong in a run.
func LogProblems(log *slog.Logger, s Summary) {
	for _, text := range s.Errors {
		log.Error("export", "error", text)
	}
	for _, text := range s.Warnings {
		log.Warn("window skipped", "error", text)
	}
}

// AddErrors adds those that are not nil.
func (s *Summary) AddErrors(errs ...error) {
	for _, err := range errs {
		if err != nil {
			s.Errors = append(s.Errors, err.Error())
		}
	}
}

// add adds the result of a pass.
func (s *Summary) add(r Result) {
	s.Committed += r.Committed
	s.Waiting += r.Waiting
	s.Open += r.Open
	s.Rows += r.Rows
	s.Drifted += r.Drifted
	s.Mispredicted += r.Mispredicted
	s.Unverified += r.Unverified
	s.MovedRows += r.MovedRows
	s.RepeatedRows += r.RepeatedRows
	s.Suspect += r.Suspect
	s.SetAside += r.SetAside
	s.Left, s.BudgetSpent = r.Left, r.BudgetSpent
	s.KeyRefused = s.KeyRefused || slices.ContainsFunc(r.Errors, docsapi.IsUnauthorized)
	s.AddErrors(r.Errors...)
	for _, err := range r.Warnings {
		s.Warnings = append(s.Warnings, err.Error())
	}
}

func (s *Summary) outcome(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return Interrupted
	case err != nil || len(s.Errors) > 0 || s.SetAside > 0 && s.Committed+s.Waiting+s.Recovered+s.Open == 0:
		return Failed // also where everything that was due was set aside
	case s.Left > 0:
		return Deferred
	}
	return Success
}
