package input

import (
	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/coverage"
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
