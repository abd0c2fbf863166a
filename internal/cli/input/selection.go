package input

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/state"
)

// SelectionFlags select windows: by kind and project, and with dates by their days.
func SelectionFlags(cmd *cobra.Command, s *coverage.Selection, dates bool) {
	f := cmd.Flags()
	if dates {
		f.StringVar(&s.From, "from", "", "with --to: read exactly the windows inside [from,to), again if they were "+
			"read before (YYYY-MM-DD)")
		f.StringVar(&s.To, "to", "", "end of the windows to read, exclusive (YYYY-MM-DD)")
		f.BoolVar(&s.Again, "again", false, "with --from and --to: start over instead of continuing an earlier run")
	}
	f.StringVar(&s.Windows, "windows", "", "only these of DOCGAUGE_WINDOWS, comma-separated")
	f.StringVar(&s.Projects, "project", "", "only these of DOCGAUGE_PROJECTS, comma-separated")
}

// KnownProjects are the projects that are configured or in the ledger, sorted.
func KnownProjects(ctx context.Context, c config.Config, db *state.DB) ([]string, error) {
	ids := slices.Clone(c.Projects)
	entries, err := db.Entries(ctx)
	for _, e := range entries {
		ids = append(ids, e.Project)
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}
