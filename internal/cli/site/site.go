// Package site is docgauge site, the commands of a site without a platform, and the wizard that sets one up.
package site

import (
	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// commands are the commands below docgauge site.
type commands struct{ *console.Console }

// ErrLocked says that another process collects into the directory.
var ErrLocked = facts.ErrLocked

// Command is docgauge site.
func Command(c *console.Console) *cobra.Command {
	a := commands{c}
	cmd := &cobra.Command{
		Use:   "site",
		Short: "count the readers of a site of your own, from its access logs",
		Long: `site is for documentation that is on no platform: it tells people and AI agents
apart by the access logs of your web server. report makes a page of logs, and
count prints their numbers; both keep nothing. serve follows the logs and
answers the API of a documentation platform, so that all other commands work on
your site:

  docgauge site serve                 with DOCGAUGE_SITE_LOGS
  docgauge site keys add              prints a key, and the settings of export
  docgauge export`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.countCommand(), a.reportCommand(), a.serveCommand(), a.checkCommand(), a.keysCommand(),
		a.agentsCommand(), a.exportCommand(), a.jobsCommand(), a.tryCommand())
	return cmd
}
