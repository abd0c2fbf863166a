package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/journal"
)

// redirectsFile has the redirects of all projects. It is a file, so that `docgauge redirects` needs no database.
const redirectsFile = "redirects.json"

// Redirects returns the redirects that `docgauge redirects` saw last in each file.
func (db *DB) Redirects(context.Context) ([]journal.Redirect, error) { return Redirects(db.dir) }

// Redirects returns the redirects in a state directory, none without one.
func Redirects(dir string) (all []journal.Redirect, err error) {
	file := filepath.Join(dir, redirectsFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it, and run `docgauge redirects --audit FORMAT FILE`", file, err)
	}
	return all, nil
}

// SetRedirects replaces the redirects of one file of a project. It also removes redirects of the same paths from the
// project's other files, because a rule can move to another file. If two processes call it at once, the redirects of one
// may be lost until its next run.
func SetRedirects(dir, project, file string, of []journal.Redirect) error {
	all, err := Redirects(dir)
	if err != nil {
		return err
	}
	former := len(all)
	all = slices.DeleteFunc(all, func(r journal.Redirect) bool {
		return r.Project == project && (r.File == file ||
			slices.ContainsFunc(of, func(o journal.Redirect) bool { return o.Path == r.Path }))
	})
	for _, r := range of {
		r.Project, r.File = project, file
		all = append(all, r)
	}
	if former+len(of) == 0 {
		return nil // no state directory for nothing
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, redirectsFile), text, 0o600)
}
