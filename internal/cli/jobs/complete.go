package jobs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// Complete completes the number or the prompt of a job, newest first.
func Complete(stateDir func() string) cobra.CompletionFunc {
	const inOrder = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, inOrder
		}
		db, err := state.OpenExisting(stateDir())
		if err != nil {
			return nil, inOrder
		}
		defer db.Close()
		all, err := db.Jobs(cmd.Context())
		if err != nil {
			return nil, inOrder
		}
		slices.Reverse(all)
		return jobNames(all, typed), inOrder
	}
}

// jobNames are the numbers of jobs, and once a letter was typed their prompts.
func jobNames(all []journal.Job, typed string) (out []cobra.Completion) {
	for _, j := range all {
		seq := strconv.FormatInt(j.Seq, 10)
		if strings.HasPrefix(seq, typed) {
			out = append(out, cobra.CompletionWithDesc(seq, fmt.Sprintf("%s, %s", j.Prompt, j.State)))
		}
		if typed != "" && strings.HasPrefix(j.Prompt, typed) {
			out = append(out, cobra.CompletionWithDesc(j.Prompt, string(j.State)))
		}
	}
	return slices.Compact(out)
}
