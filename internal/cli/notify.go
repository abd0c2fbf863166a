package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
)

type notifyOptions struct {
	test, digest, dryRun, asJSON bool
}

func (a *Program) notifyCommand() *cobra.Command {
	var o notifyOptions
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "try DOCGAUGE_NOTIFY_URL, or send the digest now",
		Long: `notify sends one message to DOCGAUGE_NOTIFY_URL, once, without a retry: with
--test one that says that it is a test, with --digest the digest of the newest
exported week of each project, whatever DOCGAUGE_DIGEST says.

--dry-run prints the message instead of sending it, as Slack would show it, and
needs no URL; with --json it prints the bodies in DOCGAUGE_NOTIFY_FORMAT, one a
line.

--digest reads the state and a sink. It changes nothing, so the next scheduled
digest is sent as well, and it can run beside serve. docs/operations.md has the
table of the events that docgauge sends by itself.

Exit codes: 0 the receiver took the message, or it was printed; 1 it did not, or
a digest could not be made; 2 bad usage or configuration.`,
		Example: `  docgauge notify --test
  docgauge notify --digest --dry-run`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.notify(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.test, "test", false, "send a message that is marked as a test")
	f.BoolVar(&o.digest, "digest", false, "send the digest of the newest week of each project")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the message, send nothing")
	f.BoolVar(&o.asJSON, "json", false, "with --dry-run: print the bodies of the requests")
	return cmd
}

func (a *Program) notify(ctx context.Context, o notifyOptions) (err error) {
	switch {
	case o.test == o.digest:
		return input.Usage(errors.New("--test, --digest: want one of the two"))
	case o.asJSON && !o.dryRun:
		return input.Usage(errors.New("--json: only with --dry-run"))
	}
	need := config.NeedNothing
	if o.digest {
		need = config.NeedProjects
	}
	c, err := a.Config(need)
	if err != nil {
		return err
	}
	if !o.dryRun && c.NotifyURL == "" {
		return config.Problems{"DOCGAUGE_NOTIFY_URL: missing: the webhook that gets the message (or " +
			"DOCGAUGE_NOTIFY_URL_FILE); --dry-run needs none"}
	}
	opened := &app.App{Config: c, Log: a.Logger(c), Now: a.Now}
	var notes []journal.Event
	if o.test {
		notes, err = events.Test(opened)
	} else {
		if opened, err = app.OpenReading(c, a.Logger(c), a.Now); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		notes, err = events.Digests(ctx, opened)
	}
	switch { // what could be made is shown or sent with the error of the rest
	case o.asJSON:
		for _, note := range notes {
			_, failed := fmt.Fprintf(a.Out, "%s\n", events.Encode(c.NotifyFormat, note))
			err = errors.Join(err, failed)
		}
		return err
	case o.dryRun:
		return errors.Join(err, printNotes(a.Out, notes))
	case len(notes) == 0:
		return err
	}
	host, failed := events.Send(ctx, opened, notes)
	if failed == nil {
		_, failed = fmt.Fprintf(a.Out, "%s took %s\n", host, format.Plural(len(notes), "message"))
	}
	return errors.Join(err, failed)
}

func printNotes(w io.Writer, notes []journal.Event) error {
	text := render.NewText(w)
	for i, note := range notes {
		var e view.Event
		if err := json.Unmarshal(note.Body, &e); err != nil {
			return err
		}
		if i > 0 {
			text.Line(0, "")
		}
		for i, line := range append([]string{e.Text}, e.Lines...) {
			text.Line(2, "%s%s", strings.Repeat("  ", min(i, 1)), render.ASCII.Replace(line))
		}
	}
	return text.Err()
}
