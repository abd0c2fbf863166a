package spool

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// UnderWay is a window whose reading was begun and is not whole.
type UnderWay struct {
	// Key is analytics.Key.String of the window.
	Key      string
	Revision int32
	// Reading counts the readings of the window for that revision, from 1.
	Reading int
	Started time.Time
	Pages   int
}

// ListUnderWay returns the windows below stateDir whose reading was begun, without
// changing anything: others may be at work there. A page log that cannot be
// trusted, or that vanishes meanwhile, is left out.
func ListUnderWay(stateDir string) ([]UnderWay, error) {
	dir := filepath.Join(stateDir, "spool", "fetching")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	var out []UnderWay
	for _, e := range entries {
		u, err := countPages(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("spool: %w", err)
		}
		if u.Pages > 0 {
			out = append(out, u)
		}
	}
	return out, nil
}

// countPages reads the header of a page log and counts the pages after it by their
// lengths, without reading them: a log can be large.
func countPages(path string) (u UnderWay, err error) {
	file, err := os.Open(path)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	payload, err := readRecord(bufio.NewReader(file), nil)
	var h header
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, errTorn):
		return u, nil
	case err != nil:
		return u, err
	case payload[0] != kindHeader || json.Unmarshal(payload[1:], &h) != nil:
		return u, nil
	}
	info, err := file.Stat()
	if err != nil {
		return u, err
	}
	u = UnderWay{Key: h.Key, Revision: h.Revision, Reading: h.Attempt, Started: h.Started}
	var head [recordHead + 1]byte
	for at := int64(recordHead + len(payload)); ; u.Pages++ {
		if _, err := file.ReadAt(head[:], at); errors.Is(err, io.EOF) {
			return u, nil
		} else if err != nil {
			return u, err
		}
		n := binary.LittleEndian.Uint32(head[:4])
		if at += recordHead + int64(n); n == 0 || at > info.Size() || head[recordHead] != kindPage {
			return u, nil
		}
	}
}
