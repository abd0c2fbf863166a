package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
)

// inode is what tells a file from others as long as it exists.
type inode struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// candidate is a file that may be a log, or an archive or a copy of one.
type candidate struct {
	source int
	// base is the path of the live log it was rotated from.
	base string
	// path is as listed, real without links.
	path, real string
	id         inode
	size       int64
	modified   time.Time
	head       []byte // once it was read
	packed     bool   // head is of a compressed file
}

// isLive reports whether a server may be writing to the file under this name.
func (c *candidate) isLive() bool { return c.path == c.base }

// kind orders what a file can be: a live log, which is no copy of another, a rotated one, an archive.
func (c *candidate) kind() int {
	switch {
	case c.isLive():
		return 0
	case strings.HasSuffix(c.path, ".gz") || strings.HasSuffix(c.path, ".zst"):
		return 2
	}
	return 1
}

// list returns the files of a source.
func (f *Follower) list(source int) (found []*candidate, err error) {
	where := f.sources[source].Where
	paths := []string{where}
	isGlob := strings.ContainsAny(where, "*?[")
	if isGlob {
		paths, _ = filepath.Glob(where) // the pattern was checked
	}
	matches := map[string]map[string]bool{} // the names in each directory
	for _, path := range paths {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		dir, name := filepath.Split(path)
		if matches[dir] == nil {
			matches[dir] = map[string]bool{}
		}
		matches[dir][name] = true
	}
	var problems []error
	for dir, names := range matches {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, named(dir, err))
		}
		for _, entry := range entries {
			base := baseOf(entry.Name(), names)
			if base == "" {
				continue
			}
			c := &candidate{source: source, base: dir + base, path: dir + entry.Name()}
			info, err := c.look()
			switch {
			case err == nil:
				found = append(found, c)
			case errors.Is(err, fs.ErrNotExist): // it was just removed, or links to nothing
			case info != nil && info.IsDir() && (isGlob || !c.isLive()): // not what was meant
			default:
				problems = append(problems, err)
			}
		}
	}
	return found, errors.Join(problems...)
}

// dated is how a server names a rotated log itself: access-2026-11-01T12-00-00.000.log.gz.
var dated = regexp.MustCompile(`^(.+?)-\d.*?(\.[A-Za-z]+)(\.gz|\.zst)?$`)

// baseOf returns which of the live logs a file of the same directory belongs to: itself, or the one it was rotated
// from, as access.log.2.gz, access.log-20261101 and access-20261101.log are from access.log. Empty: to none.
func baseOf(name string, live map[string]bool) string {
	if m := dated.FindStringSubmatch(name); m != nil && live[m[1]+m[2]] {
		return m[1] + m[2]
	}
	for i, b := range name {
		if i > 0 && (b == '.' || b == '-') && live[name[:i]] {
			return name[:i]
		}
	}
	if live[name] {
		return name
	}
	return ""
}

// look finds out which file is at the path, without opening it. Links are followed that root or this user made: who
// can write in the directory of the logs must not choose what is read.
func (c *candidate) look() (fs.FileInfo, error) {
	c.real = c.path
	for range 40 {
		info, err := os.Lstat(c.real)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			break
		}
		if _, owner := identify(info); owner != 0 && !durable.IsMine(info) {
			return nil, fmt.Errorf("%s is a link that another user made: only those of root and of this user are "+
				"followed; name its target", c.real)
		}
		target, err := os.Readlink(c.real)
		if err != nil {
			return nil, named(c.real, err)
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(c.real), target)
		}
		c.real = target
	}
	info, err := os.Lstat(c.real)
	if errors.Is(err, fs.ErrNotExist) { // also where /dev/stdout leads
		if through, bad := os.Stat(c.path); bad == nil && !through.Mode().IsRegular() {
			info, err = through, nil
		}
	}
	if err == nil {
		err = c.set(info)
	}
	return info, named(c.path, err)
}

// set takes what the system says of the file.
func (c *candidate) set(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return errors.New("is one of too many links: name the file")
	case mode.IsDir():
		return errors.New("is a directory: name the logs in it, for instance with *.log")
	case !mode.IsRegular():
		return fmt.Errorf("is a %s, must be a file: have the server write one (in containers access.log is often a link "+
			"to /dev/stdout), or pipe the lines to the source -", durable.Kind(mode))
	}
	c.id, _ = identify(info)
	c.size, c.modified = info.Size(), info.ModTime()
	return nil
}

// open opens the file if it is still the one that was listed.
func (c *candidate) open() (*os.File, error) {
	file, err := os.OpenFile(c.path, openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errChanged
	}
	if err != nil {
		return nil, named(c.path, err)
	}
	id := c.id
	info, err := file.Stat()
	if err == nil {
		err = c.set(info)
	}
	if err == nil && id != c.id {
		err = errChanged
	}
	if err != nil {
		return nil, errors.Join(named(c.path, err), file.Close())
	}
	return file, nil
}

// errMissing: neither the file of a source nor one that was rotated from it is there, or nothing matches its glob.
var errMissing = errors.New("there is no such log yet, and answers that need it are 503: is the path right?")

// errChanged: the file was renamed or emptied while it was looked at. The next poll sees what became of it.
var errChanged = errors.New("has just changed")

// named puts the path before an error, once.
func named(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w: let this user read it, for instance as a member of the group adm", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
