package spool

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Holds reports whether the spool below stateDir has the revision, whole: as a sealed file,
// or as the page log of a window that was in memory. It changes nothing, and another process
// may use the spool. An error means that this cannot be told.
func Holds(stateDir string, rev analytics.Revision) (bool, error) {
	root := filepath.Join(stateDir, "spool")
	sealed := func() (bool, error) {
		w, err := open(sealedPath(filepath.Join(root, "sealed"), rev))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
			return false, nil
		}
		return err == nil && w.Revision().Same(rev), err
	}
	// The process that exports may make a page log into a sealed file between two looks.
	for _, look := range []func() (bool, error){
		sealed, func() (bool, error) { return logHolds(logPath(filepath.Join(root, "fetching"), rev.Key), rev) }, sealed,
	} {
		if held, err := look(); held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// logHolds reports whether the page log at path has all rows of rev.
func logHolds(path string, rev analytics.Revision) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, wrapped(err)
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 1<<16)
	var head header
	payload, err := readRecord(r, nil)
	if err == nil && (payload[0] != kindHeader || json.Unmarshal(payload[1:], &head) != nil) ||
		head.Key != rev.Key.String() || head.Revision != rev.Number || !head.Started.Equal(rev.ExportedAt) {
		return false, nil
	}
	paths := map[string]bool{}
	for pages := 0; ; pages++ {
		payload, err = readRecord(r, payload)
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return pages > 0 && int64(len(paths)) == max(rev.Rows, 0), nil
		}
		if err != nil {
			return false, wrapped(err)
		}
		page, err := decodePage(payload)
		if err != nil {
			return false, nil //nolint:nilerr // the log is not sound
		}
		for _, row := range page.Rows {
			if !rev.TotalsOnly() {
				paths[row.Path] = true
			}
		}
	}
}
