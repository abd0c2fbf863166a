package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

func (a *assistant) addStateTools(s *sdk.Server) {
	add(s, a, tool{"coverage", "Coverage", "What is stored and what is missing: for each project and granularity how many windows are known, the gaps, and what is provisional (can still change) or unverified (changed while it was read); windows that the service does not give; and the last run."}, a.coverage)
	add(s, a, tool{"plan", "Plan", "What the next export would read: the windows that are due, in order, why each is due, how many requests it costs, and when the request budget lets the last of them be read. Nothing is requested."}, a.plan)
	add(s, a, tool{"budget", "Budget", "The request budgets: how many requests to the service are possible now, and when the next one is."}, a.budget)
}

// errNoState says that nothing was ever exported with this state directory.
var errNoState = errors.New("run `docgauge export` first, or start docgauge mcp with the settings of the export (--env-file)")

// withState calls f with the state.
func (a *assistant) withState(f func(*state.DB) error) (err error) {
	dir := a.Config.StateDir
	if _, err := os.Stat(filepath.Join(dir, state.FileName)); errors.Is(err, fs.ErrNotExist) {
		if whole, err := filepath.Abs(dir); err == nil { // assistants choose the working directory
			dir = whole
		}
		return fmt.Errorf("DOCGAUGE_STATE_DIR %s has no state: %w", dir, errNoState)
	}
	db, err := state.OpenExisting(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f(db)
}

// first returns the first n elements, and whether there are more.
func first[T any](all []T, n count) ([]T, bool) {
	if len(all) > int(n) {
		return all[:n], true
	}
	return append([]T{}, all...), false
}

type coverageQuestion struct {
	Project string `json:"project,omitempty" jsonschema:"id of a project; default: all"`
	Limit   count  `json:"limit,omitempty" jsonschema:"length of each list"`
}

// selection narrows what is planned.
func (q coverageQuestion) selection() coverage.Selection {
	return coverage.Selection{Projects: q.Project}
}

type coverageAnswer struct {
	ruled
	Coverage   []view.Grid           `json:"coverage"`
	Open       []view.Open           `json:"open_windows" jsonschema:"totals so far of windows that are not over"`
	Unverified []coverage.Unverified `json:"unverified"`
	SetAside   []analytics.Aside     `json:"set_aside" jsonschema:"windows with invalid responses"`
	Owed       map[string]int        `json:"windows_owed" jsonschema:"how many windows each sink lacks"`
	LastRun    *view.Run             `json:"last_run"`
	Truncated  bool                  `json:"truncated" jsonschema:"a list has more"`
}

func (a *assistant) coverage(ctx context.Context, q coverageQuestion) (out coverageAnswer, err error) {
	var s coverage.Status
	err = a.withState(func(db *state.DB) (err error) {
		c, err := a.configured(ctx, db)
		if err == nil {
			s, err = coverage.NewStatus(ctx, db, c, q.selection(), a.Now())
		}
		return err
	})
	var more [5]bool
	out = coverageAnswer{ruled: ruled{rule}, Coverage: []view.Grid{}, Owed: s.Owed, LastRun: s.LastRun}
	s.Coverage, more[4] = first(s.Coverage, mostListed)
	for _, c := range s.Coverage {
		gaps, cut := first(c.Gaps, q.Limit)
		more[0] = more[0] || cut
		c.Missing, c.Gaps = len(c.Gaps), gaps
		out.Coverage = append(out.Coverage, c)
	}
	out.Open, more[1] = first(s.Open, mostListed)
	out.Unverified, more[2] = first(s.Unverified, q.Limit)
	out.SetAside, more[3] = first(s.SetAside, q.Limit)
	out.Truncated = slices.Contains(more[:], true)
	return out, err
}

// configured returns the settings, with the projects of the ledger where none are set: an
// assistant need not have the settings of the process that exports.
func (a *assistant) configured(ctx context.Context, db *state.DB) (c config.Config, err error) {
	if c = a.Config; len(c.Projects) == 0 {
		c.Projects, err = coverage.LedgerProjects(ctx, db)
	}
	return c, err
}

type planAnswer struct {
	Windows   []coverage.PlannedWindow `json:"windows"`
	Total     int                      `json:"total"`
	Truncated bool                     `json:"truncated"`
	Waiting   int                      `json:"windows_waiting" jsonschema:"windows that are not due before their time"`
	Requests  int                      `json:"requests" jsonschema:"what all windows will cost"`
	Unknown   int                      `json:"windows_of_unknown_cost"`
	Budget    coverage.Capacity        `json:"budget"`
	Finish    time.Time                `json:"finished_by" jsonschema:"when the budget lets the last window be read"`
}

func (a *assistant) plan(ctx context.Context, q coverageQuestion) (out planAnswer, err error) {
	err = a.withState(func(db *state.DB) error {
		c, err := a.configured(ctx, db)
		if err != nil {
			return err
		}
		p, err := q.selection().Plan(ctx, db, c, a.Now(), 0)
		if err != nil {
			return err
		}
		r := coverage.NewPlanReport(p)
		out = planAnswer{Total: len(r.Windows), Waiting: len(r.Waiting), Requests: r.Requests, Unknown: r.Unknown, Budget: r.Budget, Finish: r.Finish}
		out.Windows, out.Truncated = first(r.Windows, q.Limit)
		return nil
	})
	return out, err
}

type budgetAnswer struct {
	Analytics capacity `json:"analytics" jsonschema:"requests that read visitors, all projects together"`
	// Agents are the budgets for prompts.
	Agents    []agentCapacity `json:"agents" jsonschema:"prompts and messages to agent jobs, by project"`
	Truncated bool            `json:"truncated"`
}

type capacity struct {
	coverage.Capacity
	Text string `json:"text"`
}

type agentCapacity struct {
	Project string `json:"project"`
	capacity
}

func (a *assistant) budget(ctx context.Context, _ noArguments) (out budgetAnswer, err error) {
	err = a.withState(func(db *state.DB) error {
		remaining := func(name string, limit config.Count) (capacity, error) {
			c, err := coverage.Remaining(ctx, db, name, int(limit), a.Now())
			return capacity{c, c.String()}, err
		}
		var err error
		if out.Analytics, err = remaining(coverage.AnalyticsBudget, a.Config.Budget); err != nil {
			return err
		}
		c, err := a.configured(ctx, db)
		if err != nil {
			return err
		}
		out.Agents = []agentCapacity{}
		var ids []string
		ids, out.Truncated = first(c.Projects, mostListed)
		for _, id := range ids {
			left, err := remaining(coverage.AgentBudget(id), c.AgentBudget)
			if err != nil {
				return err
			}
			out.Agents = append(out.Agents, agentCapacity{id, left})
		}
		return nil
	})
	return out, err
}
