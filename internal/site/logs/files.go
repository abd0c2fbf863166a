package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	// base is the path of the live log it was rotated from, by its name alone: that log may be gone, or not be followed.
	base   string
	isLive bool // a server may be writing to the file under this name
	// path is as listed, real without links.
	path, real string
	id         inode
	size       int64
	modified   time.Time
	born       int64  // when the inode got the file, once head was read
	head       []byte // once it was read
	packed     bool   // head is of a compressed file
}

func (c *candidate) isArchive() bool {
	return IsArchive(c.path)
}

// IsArchive reports whether a file with this name is compressed, and written to no more.
func IsArchive(path string) bool {
	return slices.Contains([]string{".gz", ".zst", ".bz2"}, filepath.Ext(path))
}

// kind orders what a file can be: a live log, which is no copy of another, a rotated one, an archive.
func (c *candidate) kind() int {
	switch {
	case c.isLive:
		return 0
	case c.isArchive():
		return 2
	}
	return 1
}

// owner is the source of a live log.
type owner struct {
	source int
	isGlob bool // its name is a match of a pattern
}

// list returns the files of each source, and what is wrong with them. A path that a source names belongs to that
// source, although it matches the pattern of another or looks like a rotation of its log. What several patterns match
// belongs to the first of them.
func (p *poll) list() (found [][]*candidate, problems []error) {
	found, problems = make([][]*candidate, len(p.sources)), make([]error, len(p.sources))
	dirs := map[string]map[string]owner{} // the live logs in each directory
	p.changed = map[string]time.Time{}
	for _, isGlob := range []bool{false, true} {
		for i, s := range p.sources {
			if !s.IsFile() || strings.ContainsAny(s.Where, "*?[") != isGlob {
				continue
			}
			p.watch(s.path())
			paths := []string{s.Where}
			if isGlob {
				paths, _ = filepath.Glob(s.Where) // the pattern was checked
			}
			for _, path := range paths {
				if abs, err := filepath.Abs(path); err == nil {
					path = abs
				}
				dir, name := filepath.Split(path)
				if dirs[dir] == nil {
					dirs[dir] = map[string]owner{}
				}
				if _, isTaken := dirs[dir][name]; !isTaken {
					dirs[dir][name] = owner{i, isGlob}
				}
			}
		}
	}
	for dir, live := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			for _, o := range live {
				problems[o.source] = named(dir, err)
			}
		}
		for _, entry := range entries {
			name := entry.Name()
			owner := ownerOf(name, live)
			if owner == "" {
				continue
			}
			c := &candidate{source: live[owner].source, base: dir + baseOf(name), path: dir + name,
				isLive: name == owner && !IsArchive(name)}
			info, err := c.look()
			switch {
			case err == nil:
				found[c.source] = append(found[c.source], c)
			case errors.Is(err, fs.ErrNotExist): // it was just removed, or links to nothing
			case info != nil && info.IsDir() && (live[owner].isGlob || name != owner): // not what was meant
			default:
				problems[c.source] = errors.Join(problems[c.source], err)
			}
		}
	}
	return found, problems
}

// watch notes when the directories last changed whose files a path or a glob names.
func (p *poll) watch(path string) {
	dir := filepath.Dir(path)
	all := []string{dir}
	if strings.ContainsAny(dir, "*?[") {
		all, _ = filepath.Glob(dir) // the pattern was checked
		p.watch(dir)
	}
	for _, dir := range all {
		p.changed[dir] = changeOf(dir)
	}
}

// hasChanged reports whether a file was made, renamed or deleted in one of the directories.
func (p *poll) hasChanged() bool {
	for dir, at := range p.changed {
		if !changeOf(dir).Equal(at) {
			return true
		}
	}
	return false
}

// changeOf returns when a directory changed; zero if it is not there.
func changeOf(dir string) (at time.Time) {
	if info, err := os.Stat(dir); err == nil {
		at = info.ModTime()
	}
	return at
}

// The forms of a rotated log's name: after the whole name, as access.log.2.gz, access.log-20261101 or access.log.bak,
// and before its extension, as access-20261101.log, access.2.log or access-2026-11-01T12-00-00.000.log.gz. Caddy 2.11
// puts the reason after the time, as in access-2026-11-01T12-00-00.000-size.log. Any other name, as access.log.shop or
// access-2.log, is another log's.
const (
	rotatedDate = `\d{4}[-_.]?\d\d[-_.:T\d]*Z?(?:-size|-time)?`
	compressed  = `(\.(gz|zst|bz2|xz|lz4))?`
	afterName   = `([-_.](\d+|` + rotatedDate + `))?(\.(bak|backup|old|orig|prev|save)|~)?` + compressed + `$`
)

var (
	rotatedAfter  = regexp.MustCompile(`^` + afterName)
	rotated       = regexp.MustCompile(`^(.+?)` + afterName)
	rotatedBefore = regexp.MustCompile(`^(.+?)([-_]` + rotatedDate + `|\.\d+|\.` + rotatedDate + `)(\.[A-Za-z]+)` +
		compressed + `$`)
)

// baseOf returns the name of the log that a file was rotated from, by its name: itself if it has no form of a rotation.
func baseOf(name string) string {
	if m := rotated.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	if m := rotatedBefore.FindStringSubmatch(name); m != nil {
		name = m[1] + m[3]
	}
	return name
}

// ownerOf returns which of the live logs a file of the same directory belongs to: itself, or the one it was rotated
// from. Empty: to none.
func ownerOf(name string, live map[string]owner) string {
	o, isLive := live[name]
	if isLive && !o.isGlob {
		return name
	}
	for i := 1; i < len(name); i++ {
		if _, ok := live[name[:i]]; ok && rotatedAfter.MatchString(name[i:]) {
			return name[:i]
		}
	}
	if m := rotatedBefore.FindStringSubmatch(name); m != nil {
		if _, ok := live[m[1]+m[3]]; ok {
			return m[1] + m[3]
		}
	}
	if isLive {
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
			return nil, fmt.Errorf("%s is a link that another user made: only links of root and of this user are "+
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
