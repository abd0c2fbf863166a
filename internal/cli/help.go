package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
)

// groupOperate is the group of commands for operators.
const groupOperate = "Operate"

// helpTexts gives the commands that cobra adds our language and exit codes, and wraps the flags
// of all commands.
func helpTexts(root *cobra.Command) {
	template := root.UsageTemplate()
	for _, set := range []string{"Local", "Inherited"} {
		template = strings.ReplaceAll(template, "."+set+"Flags.FlagUsages ",
			fmt.Sprintf(".%sFlags.FlagUsagesWrapped %d ", set, console.HelpWidth))
	}
	template = strings.ReplaceAll(template, "{{rpad .CommandPath .CommandPathPadding}} {{.Short}}",
		"{{.Root.Name}} help {{rpad .Name .NamePadding}}  {{.Short}}")
	root.SetUsageTemplate(template)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.GroupID = groupOperate
			completionTexts(c)
		}
	}
}

func helpCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain a command, or the configuration",
		Long: "help explains a command: docgauge help jobs add. docgauge help configuration lists\nthe " +
			"environment variables that most people need, and with --all every one.",
		ValidArgsFunction: completeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if found != nil && (err != nil || len(rest) > 0) {
				return input.UnknownCommand(found, append(rest, args...)[0])
			}
			switch {
			case !all:
			case found.IsAdditionalHelpTopicCommand():
				found.Long = configurationHelp()
			default:
				return input.Usagef("--all: only with docgauge help configuration")
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "with configuration: every environment variable")
	return cmd
}

func completeCommand(
	cmd *cobra.Command, args []string, typed string,
) (out []cobra.Completion, _ cobra.ShellCompDirective) {
	found, _, err := cmd.Root().Find(args)
	if err == nil {
		for _, sub := range found.Commands() {
			if (sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand()) &&
				strings.HasPrefix(sub.Name(), typed) {
				out = append(out, cobra.CompletionWithDesc(sub.Name(), sub.Short))
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func completionTexts(completion *cobra.Command) {
	completion.Short = "write the completion script of a shell"
	completion.Long = "completion writes a script that completes commands, flags, projects, windows and\njobs in " +
		"your shell. The help of each shell says how to load it."
	completion.Args = input.NoArgs
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	load := map[string]string{
		"bash": "source <(docgauge completion bash)             # now; needs bash-completion\ndocgauge " +
			"completion bash >/etc/bash_completion.d/docgauge",
		"zsh": "source <(docgauge completion zsh)              # now; after: compinit\ndocgauge completion " +
			"zsh >\"${fpath[1]}/_docgauge\"",
		"fish": "docgauge completion fish | source              # now\ndocgauge completion fish " +
			">~/.config/fish/completions/docgauge.fish",
		"powershell": "docgauge completion powershell | Out-String | Invoke-Expression",
	}
	for _, c := range completion.Commands() {
		c.Short, c.Args = "write the script for "+c.Name(), input.NoArgs
		c.Long = c.Name() + " writes the completion script for that shell to standard output.\nLoad it with\n\n  " +
			strings.ReplaceAll(load[c.Name()], "\n", "\n  ")
	}
}

func configurationTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "configuration",
		Short: "the usual settings; with --all, every one",
		Long: `docgauge is configured by environment variables, or by a file of them that
--env-file or DOCGAUGE_ENV_FILE names. docgauge init writes such a file, and
docgauge config shows the settings in effect. Most people need only some of
these; docgauge help configuration --all has every variable.
` + settingsHelp(config.Common(), func(v config.Variable) string { return v.Task }),
	}
}

// configurationHelp is the whole configuration, as the manual has it.
func configurationHelp() string {
	return `docgauge is configured by environment variables. --env-file FILE, or the
variable DOCGAUGE_ENV_FILE, names a file of them: KEY=VALUE lines, as systemd's
EnvironmentFile and docker --env-file take them, with # comments on lines of
their own. Quotes around a value are removed; nothing is expanded or executed;
the process environment wins. It may have AWS_…, HTTPS_PROXY, NO_PROXY,
SSL_CERT_FILE, SSL_CERT_DIR and GITHUB_TOKEN, too.

docgauge init writes such a file, and docgauge config shows the settings in
effect. Base URL, key and projects are needed. A secret can also be given as a
file, by the same name with _FILE.
` + settingsHelp(config.Variables(), func(v config.Variable) string { return v.Group })
}

// settingsHelp lists variables below their headings.
func settingsHelp(variables []config.Variable, heading func(config.Variable) string) string {
	var b strings.Builder
	last := ""
	for _, v := range variables {
		if v.Meaning == "" {
			continue
		}
		if h := heading(v); h != last {
			last = h
			b.WriteString("\n" + h + ":\n")
		}
		meaning := v.Meaning
		if v.Default != "" {
			meaning += " [" + v.Default + "]"
		}
		fmt.Fprintf(&b, "  %s\n%s\n", v.Name, strings.Join(render.Wrap("      "+meaning, console.HelpWidth, 6), "\n"))
	}
	return b.String()
}

// manCommand is for packagers and `make release`: people read the pages.
func (a *Program) manCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "man --dir DIR",
		Short:  "write the manual pages into a directory",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return input.Usagef("%s needs --dir, the directory for the pages", cmd.CommandPath())
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

// writeManual writes a page for each command that people see. The date comes from SOURCE_DATE_EPOCH if it is set, so
// that the same program writes the same bytes.
func (a *Program) writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.Long += "\n\n" + configurationHelp() // a help topic has no page
	walk(root, func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		cmd.Long = markdown(cmd.Long)
	})
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "docgauge " + a.Build.Version, Manual: "docgauge"},
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

// walk calls f for a command and all below it.
func walk(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, f)
	}
}
