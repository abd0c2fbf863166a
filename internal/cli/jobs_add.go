package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/prompts"
)

// adding are the flags of add.
type adding struct {
	name, id, title, project, key string
	followUps, dependsOn          []string
	template                      bool
}

func (a *Program) jobsAddCommand() *cobra.Command {
	var o adding
	cmd := &cobra.Command{
		Use:   "add [TEXT...]",
		Short: "write a prompt file, from the arguments or from standard input",
		Long: `add writes a new prompt file into DOCGAUGE_PROMPTS_DIR: the arguments as its text, or
what standard input says where there are none. The file comes whole or not at all,
and never takes the place of another. The queue takes it up with its next scan.`,
		Example: `  docgauge jobs add --title "Fix typos" Fix all typos in the guides.
  docgauge jobs add --id changelog --follow-up "Keep it shorter." <prompt.md`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.jobsAdd(o, args, cmd.InOrStdin()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "file", "", "its name below the folder (default: made from id or title)")
	f.StringVar(&o.id, "id", "", "identity (default: the file's name)")
	f.StringVar(&o.title, "title", "", "for people")
	f.StringVar(&o.project, "project", "", "one of DOCGAUGE_PROJECTS (needed where there are several)")
	f.StringVar(&o.key, "concurrency-key", "", "waits while a job of the same key is at work")
	f.StringArrayVar(&o.followUps, "follow-up", nil, "message for the job once it is completed; may be given more than once")
	f.StringSliceVar(&o.dependsOn, "depends-on", nil, "ids of prompts that must be completed first")
	f.BoolVar(&o.template, "template", false, "the text has [[ ]] to fill in")
	return cmd
}

// maxInput is more than a prompt can have.
const maxInput = 2 * prompts.MaxBytes

func (a *Program) jobsAdd(o adding, args []string, in io.Reader) error {
	c, err := a.config(config.NeedProjects | config.NeedPrompts)
	if err != nil {
		return err
	}
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if f, ok := in.(*os.File); ok && isTerminal(f) {
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
	_, ofName := errors.AsType[prompts.NameError](err)
	if _, ofRules := errors.AsType[prompts.Error](err); ofName || ofRules {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, name)
	return err
}
