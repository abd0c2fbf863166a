package stack

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// files are the documentation site, the prompts, and the command that stands in
// for an agent.
//
//go:embed files
var files embed.FS

// writeSite writes the files and makes the site a git repository. Without git,
// agent jobs pretend.
func (s *Stack) writeSite(ctx context.Context) error {
	if err := s.writeFiles(); err != nil {
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

func (s *Stack) writeFiles() error {
	return fs.WalkDir(files, "files", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel("files", filepath.FromSlash(path))
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(s.path(below), 0o700)
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(s.path(below), text, 0o600)
	})
}
