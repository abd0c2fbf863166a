package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// files are the documentation site, the prompts, and a command in the role of
// the agent.
//
//go:embed files
var files embed.FS

// promptFiles is the directory, in files and in the stack, of the prompts, and
// firstPrompt the one that runs before the export.
const (
	promptFiles = "prompts"
	firstPrompt = promptFiles + "/00-authentication.md"
)

// writeSite writes all files but the prompts, whose directory it makes, and
// makes the site a git repository. Without git, agent jobs only pretend to edit.
func (s *stack) writeSite(ctx context.Context) error {
	if err := s.writeFiles(func(path string) bool { return !strings.HasPrefix(path, promptFiles+"/") }); err != nil {
		return err
	}
	git, err := exec.LookPath("git")
	if err != nil {
		s.options.Say("git is not installed; agent jobs only pretend to edit files")
		return nil //nolint:nilerr // it goes without
	}
	for _, args := range [][]string{
		{"-c", "init.defaultBranch=main", "init", "--quiet"},
		{"config", "user.name", "docgauge stack"},
		{"config", "user.email", "stack@localhost"},
		{"add", "."},
		{"commit", "--quiet", "--message", "The documentation as it is"},
	} {
		cmd := exec.CommandContext(ctx, git, args...)
		cmd.Dir = s.path("site")
		// Settings of the person, such as signing, do not apply here.
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	s.repository = s.path("site")
	return nil
}

// firstJob runs a job to its end before the export, so that the past has the readers
// that its merged change brought. Its counters are in the first scrape of Prometheus.
func (s *stack) firstJob(ctx context.Context) error {
	if err := s.writeFiles(func(path string) bool { return path == firstPrompt }); err != nil {
		return err
	}
	if _, err := s.docgauge(ctx, nil, "jobs", "run", "--wait"); err != nil {
		return err
	}
	// The sandbox serves the readers at the beginning of the minute. An export before the
	// next minute would lack the effect, and its windows would never be read again.
	minute := time.Now().Truncate(time.Minute).Add(time.Minute)
	s.options.Say("waiting until " + minute.UTC().Format("15:04 UTC") + " for its readers")
	select {
	case <-time.After(time.Until(minute)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writePrompts gives serve its prompts once Prometheus, if there is one, has
// scraped the counter of ended jobs of each project: rules compare counters
// with their earlier values, and would miss jobs that end before the first scrape.
func (s *stack) writePrompts(ctx context.Context) error {
	if s.Prometheus != nil {
		waiting, cancel := context.WithTimeout(ctx, 2*time.Minute) // a new server waits five seconds or more
		defer cancel()
		query := fmt.Sprintf("count(count by (project) (docgauge_agent_jobs_finished_total)) == %d", len(projects))
		err := s.await(waiting, func(ctx context.Context) string {
			answer, err := get(ctx, s.Prometheus.URL+"/api/v1/query?"+url.Values{"query": {query}}.Encode())
			if strings.Contains(answer, `"result":[{`) {
				return ""
			}
			return fmt.Sprintf("a scrape of serve by Prometheus (%s, %v)", answer, err)
		})
		if err != nil {
			return err
		}
	}
	return s.writeFiles(func(path string) bool {
		return strings.HasPrefix(path, promptFiles+"/") && path != firstPrompt
	})
}

// writeFiles writes the wanted files; a path is relative to files. It makes all
// directories.
func (s *stack) writeFiles(wanted func(path string) bool) error {
	below, err := fs.Sub(files, "files")
	if err != nil {
		return err
	}
	return fs.WalkDir(below, ".", func(path string, d fs.DirEntry, err error) error {
		to := s.path(filepath.FromSlash(path))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		case !wanted(path):
			return nil
		}
		text, err := fs.ReadFile(below, path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
}
