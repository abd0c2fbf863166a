package render

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/durable"
)

// WriteFile writes a file beside path and renames it, so that readers see the
// former one or the new one, whole. A link stays a link; anything but a regular file, such as a
// pipe or /dev/stdout, is written to directly.
func WriteFile(path string, data []byte) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it", path)
	}
	if err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0)
	}
	if err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return durable.WriteFile(path, data, 0o644)
}
