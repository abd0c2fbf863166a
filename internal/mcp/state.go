package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/state"
)

// errNoState means that nothing was ever exported with this state directory.
var errNoState = errors.New("run `docgauge export` first, " +
	"or start docgauge mcp with the settings of the export (--env-file)")

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

// limit cuts a list to n elements, and sets more if it had more. An empty list is not null.
func limit[T any](list *[]T, n count, more *bool) {
	if len(*list) > int(n) {
		*list, *more = (*list)[:n], true
	}
	if *list == nil {
		*list = []T{}
	}
}

type coverageQuestion struct {
	Project string `json:"project,omitempty" jsonschema:"id of a project; default: all"`
	Limit   count  `json:"limit,omitempty" jsonschema:"length of each list"`
}

type coverageAnswer struct {
	ruled
	coverage.Status
	Truncated bool `json:"truncated" jsonschema:"a list has more"`
}

func (a *assistant) coverage(ctx context.Context, q coverageQuestion) (out coverageAnswer, err error) {
	out.ruled = ruled{rule}
	err = a.withState(func(db *state.DB) (err error) {
		c, err := a.configured(ctx, db)
		if err == nil {
			out.Status, err = coverage.NewStatus(ctx, db, c, coverage.Selection{Projects: q.Project}, a.Now())
		}
		return err
	})
	limit(&out.Coverage, mostListed, &out.Truncated)
	for i := range out.Coverage {
		limit(&out.Coverage[i].Gaps, q.Limit, &out.Truncated)
	}
	limit(&out.Open, mostListed, &out.Truncated)
	limit(&out.Unverified, q.Limit, &out.Truncated)
	limit(&out.SetAside, q.Limit, &out.Truncated)
	limit(&out.Status.Waiting, q.Limit, &out.Truncated)
	return out, err
}

// configured returns the settings, with the projects and reports of the ledger where no projects are set: an
// assistant need not have the settings of the process that exports.
func (a *assistant) configured(ctx context.Context, db *state.DB) (c config.Config, err error) {
	if c = a.Config; len(c.Projects) == 0 {
		if c.Projects, err = coverage.LedgerProjects(ctx, db); err == nil {
			c.Reports, err = db.Reports(ctx, c.Reports)
		}
	}
	return c, err
}

// planAnswer has the number of the waiting windows in place of their list.
type planAnswer struct {
	coverage.PlanReport
	Total     int  `json:"total"`
	Truncated bool `json:"truncated"`
	Waiting   int  `json:"windows_waiting" jsonschema:"windows that are not due before their time"`
}

func (a *assistant) plan(ctx context.Context, q coverageQuestion) (out planAnswer, err error) {
	err = a.withState(func(db *state.DB) error {
		c, err := a.configured(ctx, db)
		if err != nil {
			return err
		}
		p, err := coverage.Selection{Projects: q.Project}.Plan(ctx, db, c, a.Now())
		if err != nil {
			return err
		}
		r := coverage.NewPlanReport(p)
		out = planAnswer{PlanReport: r, Total: len(r.Windows), Waiting: len(r.Waiting)}
		limit(&out.Windows, q.Limit, &out.Truncated)
		return nil
	})
	return out, err
}

type budgetAnswer struct {
	Analytics capacity `json:"analytics" jsonschema:"requests that read visitors, all projects together"`
	// Agents are the budgets for prompts.
	Agents    []capacity `json:"agents" jsonschema:"prompts and messages to agent jobs, by project"`
	Truncated bool       `json:"truncated"`
}

type capacity struct {
	coverage.Capacity
	Text string `json:"text"`
}

func (a *assistant) budget(ctx context.Context, _ noArguments) (out budgetAnswer, err error) {
	err = a.withState(func(db *state.DB) error {
		remaining := func(name, project string, limit config.Count) (capacity, error) {
			c, err := coverage.Remaining(ctx, db, name, int(limit), a.Now())
			c.Project = project
			return capacity{c, c.String()}, err
		}
		var err error
		if out.Analytics, err = remaining(coverage.AnalyticsBudget, "", a.Config.Budget); err != nil {
			return err
		}
		c, err := a.configured(ctx, db)
		if err != nil {
			return err
		}
		out.Agents = []capacity{}
		ids := []string(c.Projects)
		limit(&ids, mostListed, &out.Truncated)
		for _, id := range ids {
			left, err := remaining(coverage.AgentBudget(id), id, c.AgentBudget)
			if err != nil {
				return err
			}
			out.Agents = append(out.Agents, left)
		}
		return nil
	})
	return out, err
}
