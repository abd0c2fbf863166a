package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand is for packagers and `make release`: people read the pages.
func (a *Program) manCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "man --dir DIR",
		Short:  "write the manual pages into a directory",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usageError{fmt.Errorf("%s wants --dir, the directory for the pages", cmd.CommandPath())}
			}
			return writeManual(cmd.Root(), dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory, made if it is not there")
	return cmd
}

// writeManual writes a page for each command that people see. The same program
// writes the same bytes.
func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("manual pages: %w", pathError(err))
	}
	var err error
	each(root, func(cmd *cobra.Command) {
		if err == nil && manual(cmd) {
			err = os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), []byte(manPage(cmd)), 0o644)
		}
	})
	if err != nil {
		return fmt.Errorf("manual pages: %w", pathError(err))
	}
	return nil
}

// manual reports whether a command has a page: cobra's own say all in --help.
func manual(cmd *cobra.Command) bool {
	top := cmd
	for top.HasParent() && top.Parent().HasParent() {
		top = top.Parent()
	}
	return !cmd.Hidden && top.Name() != "help" && top.Name() != "completion"
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of one command, in the macros of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"docgauge %s\" docgauge\n", roff(strings.ToUpper(pageName(cmd))), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(useLine(cmd)))
	description := cmp.Or(cmd.Long, cmd.Short)
	if !cmd.HasParent() {
		description = about
	}
	b.WriteString(".SH DESCRIPTION\n" + prose(description))
	manCommands(&b, cmd)
	manFlags(&b, cmd)
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + prose(cmd.Example))
	}
	if !cmd.HasParent() {
		manEnvironment(&b)
		b.WriteString(".SH EXIT STATUS\n" + prose(strings.TrimPrefix(exitCodes, "Exit codes: ")))
	} else {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(pageName(cmd.Parent())))
	}
	return b.String()
}

func useLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.UseLine() + " COMMAND"
	}
	return cmd.UseLine()
}

func manCommands(b *strings.Builder, cmd *cobra.Command) {
	title := ".SH COMMANDS\n"
	for _, sub := range cmd.Commands() {
		if !manual(sub) {
			continue
		}
		fmt.Fprintf(b, "%s.TP\n.BR %s (1)\n%s\n", title, roff(pageName(sub)), roff(sub.Short))
		title = ""
	}
}

func manFlags(b *strings.Builder, cmd *cobra.Command) {
	title := ".SH OPTIONS\n"
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		dashes := "--" + f.Name
		if f.Shorthand != "" {
			dashes = "-" + f.Shorthand + ", " + dashes
		}
		fmt.Fprintf(b, "%s.TP\n.BI \"%s\" \" %s\"\n%s%s\n", title, roff(dashes), roff(name), roff(usage), roff(flagDefault(f)))
		title = ""
	})
}

func flagDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

func manEnvironment(b *strings.Builder) {
	b.WriteString(".SH ENVIRONMENT\n")
	for _, v := range variableTable() {
		fmt.Fprintf(b, ".TP\n.B %s\n%s", roff(v.name), roff(v.meaning))
		if v.standard != "" {
			fmt.Fprintf(b, " (default %s)", roff(v.standard))
		}
		b.WriteString("\n")
	}
}
