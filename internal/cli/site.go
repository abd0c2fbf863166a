package cli

import (
	"github.com/spf13/cobra"
)

func (a *Program) siteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "site",
		Short: "count the readers of a site of your own, from its access logs",
		Long: `site is for documentation that is on no platform: it tells people and AI agents
apart by the access logs of your web server. count reads logs once and keeps
nothing. serve follows them and answers the API of a documentation platform, so
that all other commands work on your site:

  docgauge site serve                 with DOCGAUGE_SITE_LOGS
  docgauge site keys add              prints a key, and the settings of export
  docgauge export`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.siteCountCommand(), a.siteServeCommand(), a.siteCheckCommand(), a.siteKeysCommand(),
		a.siteAgentsCommand(), a.siteExportCommand())
	return cmd
}
