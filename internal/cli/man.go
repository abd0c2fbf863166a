package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand is for packagers and `make release`: people read the pages.
func (a *Program) manCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "man --dir DIR",
		Short:  "write the manual pages into a directory",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usageError{fmt.Errorf("%s needs --dir, the directory for the pages", cmd.CommandPath())}
			}
			if err := a.writeManual(cmd.Root(), dir); err != nil {
				return fmt.Errorf("manual pages: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory for the pages; it is created if it does not exist")
	return cmd
}

// writeManual writes a page for each command that people see. The date is that of
// SOURCE_DATE_EPOCH if it is set, so that the same program writes the same bytes.
func (a *Program) writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.Long += "\n\n" + configurationTopic().Long // a help topic has no page
	walk(root, func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		cmd.Long = markdown(cmd.Long)
	})
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "docgauge " + a.Version, Manual: "docgauge"},
		dir)
}

// markdown makes Markdown of a help text: indented lines stay, and angle brackets are escaped.
func markdown(text string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !inside, !indented && inside && strings.TrimSpace(line) != "":
			b.WriteString("\n")
		}
		if indented {
			b.WriteString("    " + line)
		} else {
			b.WriteString(strings.ReplaceAll(line, "<", `\<`))
		}
		inside = indented
	}
	return b.String()
}
