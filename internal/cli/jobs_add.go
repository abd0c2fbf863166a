package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/prompts"
)

// addOptions are the flags of add.
type addOptions struct {
	name, id, title, project, key string
	followUps, dependsOn          []string
	template                      bool
}

func (a *Program) jobsAddCommand() *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add [TEXT...]",
		Short: "write a prompt file, from the arguments or from standard input",
		Long: `add writes a new prompt file to DOCGAUGE_PROMPTS_DIR, with the arguments as its
text, or with standard input if there are none. The file is written whole or not
at all, and never replaces another. The queue finds it in its next scan.`,
		Example: `  docgauge jobs add --title "Fix typos" Fix all typos in the guides.
  docgauge jobs add --id changelog --follow-up "Keep it shorter." <prompt.md`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.jobsAdd(o, args, cmd.InOrStdin()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "file", "", "name of the file, relative to the folder (default: made from id or title)")
	f.StringVar(&o.id, "id", "", "id of the prompt (default: its path)")
	f.StringVar(&o.title, "title", "", "title, for people")
	f.StringVar(&o.project, "project", "", "one of DOCGAUGE_PROJECTS (needed if there are several)")
	f.StringVar(&o.key, "concurrency-key", "", "key; the prompt waits while a job with the same key is at work")
	f.StringArrayVar(&o.followUps, "follow-up", nil, "message for the job once it is completed (repeatable)")
	f.StringSliceVar(&o.dependsOn, "depends-on", nil, "ids of prompts that must be completed first")
	f.BoolVar(&o.template, "template", false, "render the text as a template, with [[ ]]")
	return cmd
}

// maxInput is more than a prompt may have.
const maxInput = 2 * prompts.MaxBytes

func (a *Program) jobsAdd(o addOptions, args []string, in io.Reader) error {
	c, err := a.config(config.NeedProjects | config.NeedPrompts)
	if err != nil {
		return err
	}
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if f, ok := in.(*os.File); ok && render.IsTerminal(f) {
			return usageError{errors.New("docgauge jobs add: no text: give it as arguments or on standard input")}
		}
		read, err := io.ReadAll(io.LimitReader(in, maxInput))
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		text = string(read)
	}
	folder, err := openPrompts(c)
	if err != nil {
		return err
	}
	name, err := folder.Write(o.name, prompts.Prompt{
		ID: o.id, Title: o.title, Project: o.project, ConcurrencyKey: o.key,
		FollowUps: o.followUps, DependsOn: o.dependsOn, Template: o.template, Body: strings.TrimSpace(text),
	})
	if _, wrong := errors.AsType[prompts.Error](err); wrong {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, name)
	return err
}
