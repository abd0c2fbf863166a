package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
)

func (a *Program) configCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "show every setting in effect, and where it comes from",
		Long: `config shows every setting and where it comes from: the default, the
environment, or a line of the file that --env-file names. Secrets are not shown.
Settings that an export would refuse are listed too, and the exit code is then
2. Nothing is sent or opened; docgauge check tries the settings.`,
		RunE: func(*cobra.Command, []string) error { return a.showConfig(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the settings as JSON")
	return cmd
}

// configReport is the output of config; its JSON keys are stable.
type configReport struct {
	EnvFile  string           `json:"env_file,omitempty"`
	Settings []config.Setting `json:"settings"`
	Warnings []string         `json:"warnings"`
	Problems []string         `json:"problems"`
}

func (a *Program) showConfig(asJSON bool) error {
	settings, c, err := a.Source.Explain(config.NeedProjects|config.NeedAPI, a.Now())
	problems, _ := errors.AsType[config.Problems](err)
	if asJSON {
		r := configReport{a.Source.File.Path, settings, append([]string{}, c.Warnings...),
			append([]string{}, problems...)}
		return errors.Join(render.JSON(a.Out, r), err)
	}
	for _, text := range c.Warnings {
		a.Logger(c).Warn(text)
	}
	return errors.Join(printSettings(a.Out, settings), err)
}

// printSettings lists the settings by group. Text that does not fit beside a name or a value gets a separate line; a
// value is never cut.
func printSettings(w io.Writer, settings []config.Setting) error {
	const hang = 6
	text := render.NewText(w)
	wide, group := 0, ""
	for _, s := range settings {
		wide = max(wide, len(s.Name))
	}
	for i, s := range settings {
		if s.Group != group {
			if group = s.Group; i > 0 {
				text.Line(0, "")
			}
			text.Line(0, "%s", group)
		}
		source := s.Source
		if s.Line > 0 {
			source = fmt.Sprintf("%s:%d", filepath.Base(s.Source), s.Line)
		}
		value := s.Value
		if value == "" {
			value = "-"
		}
		line := fmt.Sprintf("  %-*s  %-24s  %s", wide, s.Name, value, source)
		if len([]rune(line)) > console.HelpWidth {
			text.Line(hang, "  %-*s  %-24s  %s", wide, s.Name, "", source)
			line = strings.Repeat(" ", hang) + value
		}
		text.Line(hang, "%s", line)
	}
	return text.Err()
}
