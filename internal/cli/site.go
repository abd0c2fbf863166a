package cli

import (
	"github.com/spf13/cobra"
)

func (a *Program) siteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "site",
		Short: "count the readers of a site of your own, from its access logs",
		Long: `site is for documentation that is on no platform: it tells people and AI agents
apart by the access logs of your web server.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.siteKeysCommand(), a.siteCountCommand(), a.siteAgentsCommand())
	return cmd
}
