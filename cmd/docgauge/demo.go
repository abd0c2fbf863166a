package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/sandbox"
)

func (a *app) demoCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run the sandbox, export a month from it, and show what there is now",
		Long: `demo starts the sandbox on a free port of this machine, exports the last 30 days
from it over HTTP into Parquet files, and prints a summary. Nothing else is
needed. Without --dir the files lie in a new temporary directory, which stays.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory for data and state (default: a new temporary one)")
	return cmd
}

func (a *app) demo(ctx context.Context, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "docgauge-demo-"); err != nil {
			return err
		}
	}
	s, err := sandbox.New(sandbox.Config{Seed: 1, Now: a.now})
	if err != nil {
		return err
	}
	ln, err := sandbox.Listen("127.0.0.1:0", false)
	if err != nil {
		return err
	}
	serveCtx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Serve(serveCtx, ln) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	c, err := demoConfig(a, "http://"+ln.Addr().String(), dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "sandbox  %s  (120 days of synthetic traffic, 640 pages)\n\nexport   ", c.BaseURL)
	if err := a.exportWith(ctx, c, &selection{}, false, false); err != nil {
		return err
	}
	return a.demoSummary(ctx, c, len(s.Requests()))
}

// demoConfig is the environment's configuration, pointed at the sandbox.
func demoConfig(a *app, url, dir string) (config, error) {
	c, err := loadConfig(needNothing, a.now())
	if err != nil {
		return c, err
	}
	c.BaseURL, c.APIKey, c.Projects = url, sandbox.DefaultAPIKey, projects{sandbox.DefaultProject}
	c.Budget = 0
	c.StateDir, c.ParquetURL = filepath.Join(dir, "state"), filepath.Join(dir, "data")
	if os.Getenv("DOCGAUGE_LOG_LEVEL") == "" {
		if err := c.LogLevel.UnmarshalText([]byte("warn")); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (a *app) demoSummary(ctx context.Context, c config, served int) error {
	fmt.Fprintln(a.out)
	if err := a.statusOf(ctx, c, &selection{}, false); err != nil {
		return err
	}
	files, size, err := measure(c.ParquetURL)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, `
files    %s, %s, in %s
         %s
service  %s answered

Query it:   SELECT path, human, ai, total FROM '%s' ORDER BY total DESC LIMIT 10   (DuckDB)
Your own:   set DOCGAUGE_BASE_URL, DOCGAUGE_API_KEY and DOCGAUGE_PROJECTS, then: docgauge check && docgauge export
`, plural(files, "Parquet file"), humanize.IBytes(uint64(size)), c.ParquetURL,
		"visitors/v1/p=…/g=day|week|month/ym=…/<from>_<to>.parquet, totals/v1/… alike", plural(served, "request"),
		filepath.Join(c.ParquetURL, "visitors/v1/*/g=week/*/*.parquet"))
	return nil
}

func measure(root string) (files int, size int64, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		size += info.Size()
		return nil
	})
	return files, size, err
}
