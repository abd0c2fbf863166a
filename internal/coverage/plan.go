package coverage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

// Selection narrows a plan. The zero value selects everything configured.
type Selection struct {
	// From and To, both or neither, select exactly the windows inside [From,To).
	From, To string
	// Again begins a reading of these anew.
	Again bool
	// Windows and Projects are comma-separated.
	Windows, Projects string
}

// SelectProjects splits a comma-separated list of projects, each of them once, and refuses one that is not known.
// origin is where the known projects are, for the error.
func SelectProjects(list string, known []string, origin string) ([]string, error) {
	var ids []string
	for _, id := range format.List(list) {
		if !slices.Contains(known, id) {
			return nil, mistake("--project %.140q is not in %s; %s", id, origin, format.DidYouMean(id, known))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// KnownProjects returns the projects that are configured or in the ledger, sorted.
func KnownProjects(ctx context.Context, c config.Config, db *state.DB) ([]string, error) {
	ids := slices.Clone(c.Projects)
	entries, err := db.Entries(ctx)
	for _, e := range entries {
		ids = append(ids, e.Project)
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// JobProjects is SelectProjects of the projects that are known or have agent jobs; an empty list selects none.
func JobProjects(ctx context.Context, c config.Config, db *state.DB, list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	known, err := KnownProjects(ctx, c, db)
	jobs, failed := db.Jobs(ctx)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if !slices.Contains(known, j.Project) {
			known = append(known, j.Project)
		}
	}
	return SelectProjects(list, known, "DOCGAUGE_PROJECTS, the ledger or the jobs")
}

// SelectionError is a mistake in a selection.
type SelectionError struct{ error }

// Unwrap returns the mistake.
func (e SelectionError) Unwrap() error { return e.error }

func mistake(format string, args ...any) error {
	return SelectionError{fmt.Errorf(format, args...)}
}

// Check finds every mistake in the selection, before anything is opened.
func (s Selection) Check(c config.Config, now time.Time) error {
	in, err := s.input(c, Ledger{}, now)
	if err == nil {
		_, _, _, err = s.items(in)
	}
	return err
}

// IsNamed reports whether the selection names windows by their dates.
func (s Selection) IsNamed() bool { return s.From != "" || s.To != "" }

// name tells the readings of named windows apart.
func (s Selection) name() string {
	sorted := func(list string) string { return strings.Join(slices.Sorted(slices.Values(format.List(list))), ",") }
	return fmt.Sprintf("from=%s to=%s windows=%s projects=%s", s.From, s.To, sorted(s.Windows), sorted(s.Projects))
}

// reading returns when the reading of the named windows began; the zero Reading if it did
// not yet, is to begin anew, or began in the future by a wrong clock.
func (s Selection) reading(ctx context.Context, db *state.DB, now time.Time) (state.Reading, error) {
	if !s.IsNamed() || s.Again {
		return state.Reading{}, nil
	}
	r, err := db.FindReading(ctx, s.name())
	if r.Began.After(now) {
		r = state.Reading{}
	}
	return r, err
}

// Begin keeps that a reading of the named windows begins now, unless it began before. The
// same selection is planned from there until it is Done.
func (s Selection) Begin(ctx context.Context, db *state.DB, now time.Time) error {
	r, err := s.reading(ctx, db, now)
	if err != nil || !s.IsNamed() || !r.Began.IsZero() {
		return err
	}
	return db.SetReading(ctx, state.Reading{Name: s.name(), Began: now.UTC().Truncate(time.Microsecond)})
}

// Named is how far a reading of named windows is.
type Named struct {
	state.Reading
	From    string `json:"from"`
	To      string `json:"to"`
	Windows int    `json:"windows"`
	// Left counts the windows that were not read since it began, those that failed included.
	Left int `json:"windows_left"`
}

// Plan lists the windows that are due and those that are not yet, and the budget.
type Plan struct {
	Due, Waiting []schedule.Item
	// Input has everything the plan depends on.
	Input  schedule.Input
	Ledger Ledger
	Budget Capacity
	// Named is nil where no windows are named by their dates.
	Named *Named
	// Lacking are the reports that the service does not have, and that are not asked for now.
	Lacking []Lacking
	// Refused are the projects and reports that the service refuses, and that are not asked for now. Their
	// windows are not among those that wait.
	Refused []view.Refused
	// Early has the projects with windows that begin before the service has data.
	Early []Early
}

// StillAside is how many windows wait because they were set aside, alone or with their project or report.
func (p Plan) StillAside() int {
	n := len(p.Ledger.setAside(p.Input))
	for _, r := range p.Refused {
		n += r.Windows
	}
	return n
}

// Early is how many windows of a project are not exported because they begin before the first day with data.
type Early struct {
	Project string `json:"project"`
	// DataFrom is that day; nil if no day has data yet.
	DataFrom *analytics.Date `json:"data_from"`
	Windows  int             `json:"windows"`
}

// Lacking is a report that the service does not have.
type Lacking struct {
	Project string           `json:"project"`
	Report  analytics.Report `json:"report"`
	// Until is when it is asked for again.
	Until time.Time `json:"until"`
}

// Plan plans against the present ledger.
func (s Selection) Plan(ctx context.Context, db *state.DB, c config.Config, now time.Time) (p Plan, err error) {
	l, err := Read(ctx, db, now)
	if err != nil {
		return p, err
	}
	return s.PlanOver(ctx, l, db, c, now, 0)
}

// PlanOver is [Selection.Plan] against a ledger that was just read. Rotate counts the runs: it decides which
// project's turn is first.
func (s Selection) PlanOver(
	ctx context.Context, l Ledger, db *state.DB, c config.Config, now time.Time, rotate int,
) (p Plan, err error) {
	p.Ledger = l
	if err = p.Ledger.countPagesInSpool(c.StateDir, now, time.Duration(c.Settle)); err != nil {
		return p, err
	}
	if p.Input, err = s.input(c, p.Ledger, now); err != nil {
		return p, err
	}
	p.Input.Rotate = rotate
	reading, err := s.reading(ctx, db, now)
	if err != nil {
		return p, err
	}
	p.Input.Began = reading.Began
	due, waiting, all, err := s.items(p.Input)
	if err != nil {
		return p, err
	}
	p.Due, p.Waiting = due, waiting
	for _, project := range p.Input.Projects {
		if early := s.early(p.Input, project); early.Windows > 0 {
			p.Early = append(p.Early, early)
		}
		for _, report := range p.Input.Reports {
			until, lacks := p.Ledger.Learned.Lacks(schedule.Source{Project: project, Report: report}, now)
			if lacks {
				p.Lacking = append(p.Lacking, Lacking{project, report, until})
			}
		}
	}
	p.splitRefused()
	if s.IsNamed() {
		p.Named = &Named{Reading: reading, From: s.From, To: s.To, Windows: all, Left: len(due) + len(waiting)}
	}
	p.Budget, err = Remaining(ctx, db, AnalyticsBudget, int(c.Budget), now)
	return p, err
}

// splitRefused takes the windows of refused sources, which can be thousands, from those that wait, and counts them.
func (p *Plan) splitRefused() {
	at := map[schedule.Source]int{}
	p.Waiting = slices.DeleteFunc(slices.Clone(p.Waiting), func(item schedule.Item) bool {
		source := schedule.SourceOf(item.Key)
		since, until := p.Input.Refused(source)
		if !until.After(p.Input.Now) {
			return false
		}
		i, known := at[source]
		if !known {
			i = len(p.Refused)
			at[source] = i
			p.Refused = append(p.Refused, view.Refused{Project: source.Project, Report: source.Report, At: since, Until: until})
		}
		p.Refused[i].Windows++
		return true
	})
}

// early returns how many windows of a project are left out because they begin before the service has data. Windows
// named on the command line are never left out.
func (s Selection) early(in schedule.Input, project string) Early {
	e := Early{Project: project}
	day, known := in.DataFrom(project)
	if !known || s.IsNamed() {
		return e
	}
	if day != analytics.NoData {
		e.DataFrom = &day
	}
	for _, report := range in.Reports {
		for _, spec := range in.Specs {
			of := schedule.Source{Project: project, Report: report}
			e.Windows += schedule.Early(in, schedule.Wanted{Source: of, Spec: spec})
		}
	}
	return e
}

// input returns the input of the plan.
func (s Selection) input(c config.Config, l Ledger, now time.Time) (schedule.Input, error) {
	in := schedule.Input{
		Now: now, Projects: c.Projects, Reports: c.Reports, Specs: c.Windows, Open: c.OpenWindows, Since: c.Since.Date,
		Settle: time.Duration(c.Settle), Sizes: l.Sizes,
		Known: func(k analytics.Key) (analytics.Revision, bool) {
			rev, ok := l.Known(k)
			return rev, ok && rev.ExportedAt != analytics.Unbelieved
		},
		Lacks: func(of schedule.Source) bool {
			_, lacks := l.Learned.Lacks(of, now)
			return lacks
		},
		Refused:  l.Learned.Refused,
		DataFrom: l.Learned.DataFrom,
		Lost: func(k analytics.Key) bool {
			e := l.Entry(k)
			return e != nil && e.Lost()
		},
		Aside: func(k analytics.Key) (analytics.Aside, bool) {
			a, ok := l.Asides[k]
			return a, ok
		},
		// Totals that took more than their one request: pages were read, and given up.
		GaveUp: func(k analytics.Key) bool {
			e := l.Entry(k)
			return e != nil && e.TotalsOnly() && e.Requests > 1
		},
		Policy: schedule.Policy{
			Limit: int(c.Budget), Settle: time.Duration(c.Settle), Learned: l.Learned.Of,
		},
	}
	if len(in.Reports) == 0 {
		in.Reports = []analytics.Report{analytics.VisitorsReport}
	}
	for e := range l.All() {
		if !e.Settled || e.Lost() {
			in.Provisional = append(in.Provisional, e.Key)
		}
	}
	if s.Projects != "" {
		var err error
		if in.Projects, err = SelectProjects(s.Projects, c.Projects, "DOCGAUGE_PROJECTS"); err != nil {
			return in, err
		}
	}
	if s.Windows == "" {
		return in, nil
	}
	in.Specs = nil
	var known []string
	for _, spec := range c.Windows {
		known = append(known, string(spec.Granularity))
	}
	for _, name := range format.List(s.Windows) {
		i := slices.IndexFunc(c.Windows, func(spec analytics.Spec) bool {
			return spec.String() == name || string(spec.Granularity) == name
		})
		if i < 0 {
			return in, mistake("--windows %.40q is not in DOCGAUGE_WINDOWS; %s", name, format.DidYouMean(name, known))
		}
		if !slices.Contains(in.Specs, c.Windows[i]) { // a spec has two names
			in.Specs = append(in.Specs, c.Windows[i])
		}
	}
	in.Open = slices.DeleteFunc(slices.Clone(in.Open), func(g analytics.Granularity) bool { return !s.hasWindows(in, g) })
	return in, nil
}

// Reach returns a function that reports of a window whether it is configured, and whether
// it is due if the ledger has never known it.
func Reach(c config.Config, now time.Time) func(analytics.Key) (configured, due bool) {
	in := schedule.Input{
		Now: now, Since: c.Since.Date,
		Known: func(analytics.Key) (analytics.Revision, bool) { return analytics.Revision{}, false },
	}
	wanted := map[analytics.Granularity]map[analytics.Window]bool{} // of any project and report
	return func(k analytics.Key) (configured, due bool) {
		configured = isConfigured(k, c.Projects, c.Reports, c.Windows)
		if configured && wanted[k.Granularity] == nil {
			wanted[k.Granularity] = map[analytics.Window]bool{}
			for _, w := range schedule.Gaps(in, schedule.Wanted{
				Source: schedule.SourceOf(k), Spec: analytics.Spec{Granularity: k.Granularity},
			}) {
				wanted[k.Granularity][w] = true
			}
		}
		return configured, configured && wanted[k.Granularity][k.Window]
	}
}

// items returns the windows to read, those due or those selected by their dates, and those that
// wait for their time; all counts the selected ones.
func (s Selection) items(in schedule.Input) (due, waiting []schedule.Item, all int, err error) {
	if !s.IsNamed() {
		if s.Again {
			return nil, nil, 0, mistake("--again goes with --from and --to: it begins their reading anew")
		}
		due, waiting = schedule.Plan(in)
		return due, waiting, 0, nil
	}
	within, err := ParseDates(s.From, s.To)
	if err != nil {
		return nil, nil, 0, SelectionError{err}
	}
	if due, waiting, all, err = schedule.Asked(in, within.From, within.To); err != nil {
		return nil, nil, 0, mistake("--from, --to: %w", err)
	}
	return due, waiting, all, nil
}

// ParseDates reads the flags --from and --to: both or neither.
func ParseDates(from, to string) (w analytics.Window, err error) {
	if (from == "") != (to == "") {
		return w, errors.New("--from and --to go together: they select the windows inside [from,to)")
	}
	if from == "" {
		return w, nil
	}
	if w.From, err = analytics.ParseDate(from); err != nil {
		return w, fmt.Errorf("--from: %w", err)
	}
	if w.To, err = analytics.ParseDate(to); err != nil {
		return w, fmt.Errorf("--to: %w", err)
	}
	if w.From >= w.To {
		return w, fmt.Errorf("--from, --to: %s is empty; --to is the first day after the windows", w)
	}
	return w, nil
}
