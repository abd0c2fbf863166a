package stack

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// files are the documentation site, the prompts, and the command that stands in
// for an agent.
//
//go:embed files
var files embed.FS

// promptFiles are those of files that serve's queue takes.
const promptFiles = "prompts"

// writeSite writes all files but the prompts, whose folder it makes, and makes
// the site a git repository. Without git, agent jobs pretend.
func (s *Stack) writeSite(ctx context.Context) error {
	below, err := files.ReadDir("files")
	if err != nil {
		return err
	}
	for _, entry := range below {
		if entry.Name() == promptFiles {
			continue
		}
		if err := s.writeFiles(entry.Name()); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.path(promptFiles), 0o700); err != nil {
		return err
	}
	git, err := exec.LookPath("git")
	if err != nil {
		s.options.Say("git is not installed; agent jobs pretend to edit files")
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
		// Settings of the person, such as signing, are of no use here.
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	s.repository = s.path("site")
	return nil
}

// writePrompts gives serve its prompts once Prometheus has seen that no job has
// ended: a rule compares counters with what they were, so it does not know of
// jobs that end before the first scrape.
func (s *Stack) writePrompts(ctx context.Context) error {
	if err := s.awaitScrape(ctx); err != nil {
		return err
	}
	return s.writeFiles(promptFiles)
}

// awaitScrape returns when Prometheus, if there is one, has the counter of ended
// jobs of each project.
func (s *Stack) awaitScrape(ctx context.Context) error {
	if s.Prometheus == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, scrapePatience)
	defer cancel()
	query := fmt.Sprintf("count(count by (project) (docgauge_agent_jobs_finished_total)) == %d", len(Projects))
	return s.await(ctx, func(ctx context.Context) string {
		answer, err := get(ctx, s.Prometheus.URL+"/api/v1/query?"+url.Values{"query": {query}}.Encode())
		if strings.Contains(answer, `"result":[{`) {
			return ""
		}
		return fmt.Sprintf("a scrape of serve by Prometheus (%s, %v)", answer, err)
	})
}

// writeFiles writes one of files, or all below it.
func (s *Stack) writeFiles(name string) error {
	return fs.WalkDir(files, path.Join("files", name), func(from string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel("files", filepath.FromSlash(from))
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(s.path(below), 0o700)
		}
		text, err := files.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(s.path(below), text, 0o600)
	})
}
