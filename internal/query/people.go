package query

import (
	"context"
	"errors"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// peopleOf returns the people of the site in each window of a project, as the windows of agents beside the visitors have
// them: none where agents are not exported, or where the service does not tell confirmed people from the others. Windows
// of agents that cannot be read count as missing.
func peopleOf(
	ctx context.Context, from sinks.Sink, windows map[analytics.Key]bool,
) (map[analytics.Window]*view.People, error) {
	people, keys := map[analytics.Window]*view.People{}, map[analytics.Key]bool{}
	for key := range windows {
		key.Report = analytics.AgentsReport
		keys[key] = true
	}
	scope := sinks.Scope{Keys: keys}
	for rev, err := range sinks.ListIn(ctx, sinks.ReportOf(from, analytics.AgentsReport), scope) {
		if _, damaged := errors.AsType[sinks.Fault](err); damaged {
			continue
		}
		if err != nil {
			return nil, err
		}
		if rev.Humans == "" {
			continue
		}
		var site []analytics.Record
		err := eachRecord(ctx, from, &rev, func(row analytics.Record) bool {
			if row.Path() != "" {
				return false
			}
			site = append(site, row)
			return true
		})
		if err != nil {
			return nil, err
		}
		people[rev.Window] = view.PeopleOf(rev.Humans, "", site)
	}
	return people, nil
}
