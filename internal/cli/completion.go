package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// completions completes projects and windows of the environment, sinks, jobs of the journal,
// and files and directories where a flag names one. It never sends a request to the service.
func (a *Program) completions(root *cobra.Command) {
	// The settings are where they are for the command itself.
	withSettings := func(complete cobra.CompletionFunc) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			path, _ := cmd.Flags().GetString("env-file")
			_ = a.readSettings(cmd, path) // nothing can be given here
			return complete(cmd, args, typed)
		}
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	walk(root, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if complete := a.flagValues(cmd, f.Name); complete != nil {
				_ = cmd.RegisterFlagCompletionFunc(f.Name,
					withSettings(complete)) // the flag is there, and has none yet
			}
		})
		if strings.Contains(cmd.Use, "SEQ|PROMPT") {
			cmd.ValidArgsFunction = withSettings(jobs.Complete(func() string { return a.setting("STATE_DIR") }))
		}
	})
	_ = root.RegisterFlagCompletionFunc("env-file", a.flagValues(root, "env-file")) // as above
}

// flagValues returns the completion of a flag's value, nil for a flag without completion.
func (a *Program) flagValues(cmd *cobra.Command, flag string) cobra.CompletionFunc {
	const noFile = cobra.ShellCompDirectiveNoFileComp
	fixed := func(values ...cobra.Completion) cobra.CompletionFunc { return cobra.FixedCompletions(values, noFile) }
	switch flag {
	case "project":
		if cmd.Name() == "sandbox" { // its projects can have any name
			return nil
		}
		return completeList(func() []string { return format.List(a.setting("PROJECTS")) })
	case "windows":
		return completeList(a.configuredWindows)
	case "window":
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.configuredWindows(), noFile
		}
	case "by":
		others, _ := otherReports()
		return fixed(map[string][]cobra.Completion{
			"top":     append([]string{"total", "human", "ai", string(query.ByChange), byAgent}, others...),
			"history": reportsWithTotals(),
			"count":   {"page", "agent", "source", "user-agent", "day"},
		}[cmd.Name()]...)
	case "sink":
		return fixed(slices.Sorted(slices.Values(config.SinkNames()))...)
	case "scenario":
		return fixed(string(sandbox.Growth), string(sandbox.Steady))
	case "log.level":
		return fixed("debug", "info", "warn", "error")
	case "log.format":
		return fixed("text", "json")
	case "archive", "data", "dir", "repo":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case "agent-script", "request-log", "output", "env-file", "api-key-file", "web.config.file":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return nil
}

// completeList completes the last element of a comma-separated list.
func completeList(all func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		given := format.List(before)
		var out []cobra.Completion
		for _, name := range all() {
			if !slices.Contains(given, name) {
				out = append(out, before+name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *Program) setting(name string) string {
	for _, v := range config.Variables() {
		if v.Name == "DOCGAUGE_"+name {
			value, _ := a.Source.Lookup(v.Name)
			return cmp.Or(value, v.Default)
		}
	}
	return ""
}

func (a *Program) configuredWindows() []string {
	list := format.List(a.setting("WINDOWS"))
	for i, w := range list {
		list[i], _, _ = strings.Cut(w, ":")
	}
	return list
}
