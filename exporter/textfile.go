package exporter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prometheus/common/expfmt"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/view"
)

// WriteTextfile replaces the file at path with the metrics of s, in the classic text
// format and without timestamps, for node_exporter's textfile collector. A reader sees
// the former file or the new one, whole; the mode is 0644. Temporary files beside it do
// not end in .prom, so the collector skips them.
//
// An error names path, the cause and a remedy.
func WriteTextfile(path string, s view.Snapshot) error {
	if err := checkTextfile(path); err != nil {
		return err
	}
	text, err := encode(gather(&s), expfmt.NewFormat(expfmt.TypeTextPlain), true)
	if err == nil {
		err = durable.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return textfileError(path, err)
	}
	return nil
}

// TryTextfile checks that [WriteTextfile] can write to path, without changing the file. It returns the errors that
// WriteTextfile would return.
func TryTextfile(path string) error {
	if err := checkTextfile(path); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return textfileError(path, err)
	}
	closed := file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return textfileError(path, err)
	}
	return closed
}

// checkTextfile checks path before anything is written: the
// name must end in .prom and the directory must be there.
func checkTextfile(path string) error {
	if !strings.HasSuffix(path, ".prom") {
		return fmt.Errorf("textfile %s: the name must end in .prom, or node_exporter does not read it; rename it", path)
	}
	directory, err := os.Stat(filepath.Dir(path))
	if err == nil && !directory.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return textfileError(path, err)
	}
	return nil
}

// textfileRemedies are the remedies for common mistakes.
var textfileRemedies = []struct {
	err    error
	remedy string
}{
	{fs.ErrNotExist, "its directory must exist; create it, or name the one in node_exporter's " +
		"--collector.textfile.directory"},
	{syscall.ENOTDIR, "it must lie in a directory; name the one in node_exporter's --collector.textfile.directory"},
	{fs.ErrPermission, "its directory must be writable, because the file is replaced by renaming; grant this user " +
		"the right"},
	{syscall.EROFS, "its directory must be writable; mount it so"},
	{syscall.ENOSPC, "its file system must have room; free some"},
	{syscall.EDQUOT, "its file system must have room; raise the quota"},
}

func textfileError(path string, err error) error {
	for _, r := range textfileRemedies {
		if errors.Is(err, r.err) {
			return fmt.Errorf("textfile %s: %w: %s", path, err, r.remedy)
		}
	}
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		return fmt.Errorf("textfile %s: %w: it is a directory; name a file in it", path, err)
	}
	return fmt.Errorf("textfile %s: %w", path, err)
}
