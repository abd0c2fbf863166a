package deltalog

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/docgauge/docgauge/internal/filestore"
)

const (
	logDir   = "_delta_log"
	hintName = "_last_checkpoint"
	// markBytes of an entry's end tell it from any other: they hold random names or times.
	markBytes = 512
	// readBytes is the number of bytes of an entry that are read at once.
	readBytes = 1 << 20
)

func (t *Table) describe() string { return "delta table " + t.options.Files.Describe(t.options.Dir) }

func (t *Table) name(base string) string { return path.Join(t.options.Dir, logDir, base) }

func (t *Table) entryName(version int64) string { return t.name(fmt.Sprintf("%020d.json", version)) }

// mark tells an entry from another entry of the same version; the zero value equals no mark of an entry.
type mark struct {
	size int64
	end  string
}

// readMark returns the mark of an entry, the zero value if it does not exist.
func (t *Table) readMark(ctx context.Context, version int64) (mark, error) {
	f, err := t.options.Files.Open(ctx, t.entryName(version))
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	defer f.Close()
	return markIn(f)
}

func markIn(f filestore.File) (mark, error) {
	end := make([]byte, min(markBytes, f.Size()))
	_, err := f.ReadAt(end, f.Size()-int64(len(end)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return mark{f.Size(), string(end)}, err
}

// refresh brings the snapshot up to date. The error is ErrGone if the log has lost entries that this process has
// read: then the snapshot shows the new log.
//
// The newest entry known is looked at each time, since a directory can be emptied by hand
// under a running program, and a next entry without those before it would be no table.
func (t *Table) refresh(ctx context.Context) error {
	former := t.snap
	if former != nil && former.version >= 0 {
		m, err := t.readMark(ctx, former.version)
		if err != nil {
			return err
		}
		if m != (mark{}) && m == t.mark {
			if err := t.catchUp(ctx, former); err != nil {
				return err
			}
			return t.check()
		}
	}
	s, err := t.load(ctx)
	if err != nil {
		t.mark = mark{} // the former snapshot is not used until all is read
		return err
	}
	t.snap = s
	if former != nil && former.version >= 0 && (s.version < former.version || s.ID() != former.ID()) {
		return fmt.Errorf("%s: %w: version %d is gone, the newest is now %d: try again if the directory was emptied "+
			"or replaced on purpose",
			t.describe(), ErrGone, former.version, s.version)
	}
	return t.check()
}

// check returns why this program must leave the table alone. Only the newest state counts.
func (t *Table) check() error {
	s := t.snap
	if s.version < 0 {
		return nil
	}
	err := fmt.Errorf("%w: no protocol or no metaData in any entry", ErrDamaged)
	if s.protocol != nil && s.meta != nil {
		if err = s.protocol.check(); err == nil {
			err = s.meta.check(t.options.Columns)
		}
	}
	if err != nil {
		return fmt.Errorf("%s, version %d: %w", t.describe(), s.version, err)
	}
	return nil
}

// catchUp applies the entries that were put since the snapshot's version. Without new
// entries it costs one request.
func (t *Table) catchUp(ctx context.Context, s *Snapshot) error {
	known := s.version
	if err := t.replay(ctx, s, known+1); err != nil || s.version == known {
		return err
	}
	l, err := t.list(ctx, s.version+1)
	if err != nil {
		return err
	}
	return t.replay(ctx, s, l.newest)
}

// replay applies the entries after the snapshot's version up to newest, or to the first
// missing one. It reads as many at once as is worth it.
func (t *Table) replay(ctx context.Context, s *Snapshot, newest int64) error {
	type entry struct {
		actions []action
		mark    mark
		err     error
	}
	for s.version < newest {
		entries := make([]entry, min(newest-s.version, max(1, int64(t.options.Readers))))
		var readers sync.WaitGroup
		for i := range entries {
			readers.Go(func() {
				e := &entries[i]
				e.actions, e.mark, e.err = t.readEntry(ctx, s.version+1+int64(i))
			})
		}
		readers.Wait()
		for _, e := range entries {
			if errors.Is(e.err, fs.ErrNotExist) {
				return nil
			}
			if e.err != nil {
				return e.err
			}
			s.apply(s.version+1, e.actions)
			t.mark = e.mark
		}
	}
	return nil
}

func (t *Table) readEntry(ctx context.Context, version int64) ([]action, mark, error) {
	name := t.entryName(version)
	f, err := t.options.Files.Open(ctx, name)
	if err != nil {
		return nil, mark{}, err
	}
	defer f.Close()
	in := &source{File: f}
	actions, err := decodeEntry(bufio.NewReaderSize(io.NewSectionReader(in, 0, f.Size()),
		int(min(f.Size(), readBytes))))
	var m mark
	if err == nil {
		m, err = markIn(in)
	}
	switch {
	case in.err != nil:
		return nil, mark{}, fmt.Errorf("%s: %w", t.options.Files.Describe(name), in.err)
	case err != nil:
		return nil, mark{}, fmt.Errorf("%s: %w: %w: put it back from a copy, or empty the directory and run "+
			"docgauge load",
			t.options.Files.Describe(name), ErrDamaged, err)
	}
	return actions, m, nil
}

// source keeps the error of reading a file apart from errors of its contents.
type source struct {
	filestore.File
	err error
}

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.File.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// listing is the contents of a log.
type listing struct {
	newest      int64              // version of the newest entry, -1 without entries
	checkpoints map[int64][]string // names of the parts of those that are complete
}

// versions in descending order.
func (l listing) versions() []int64 {
	var all []int64
	for v := range l.checkpoints {
		all = append(all, v)
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// logName is any file of a version: its entry, a checkpoint or a part of one, or something
// that another program keeps beside them.
var logName = regexp.MustCompile(
	`^(\d{20})(\.json|\.checkpoint\.parquet|\.checkpoint\.(\d{10})\.(\d{10})\.parquet|` +
		`\.crc|\.\d{20}\.compacted\.json)$`)

// list lists the log from a version on.
func (t *Table) list(ctx context.Context, from int64) (listing, error) {
	l := listing{newest: -1, checkpoints: map[int64][]string{}}
	parts := map[string][]string{} // by version and number of parts
	err := t.options.Files.List(ctx, t.name(""), t.name(fmt.Sprintf("%020d", from)), func(name string) {
		m := logName.FindStringSubmatch(strings.TrimPrefix(name, t.name("")+"/"))
		if m == nil {
			return
		}
		version, _ := strconv.ParseInt(m[1], 10, 64) // out of range is the greatest
		switch {
		case m[2] == ".json":
			l.newest = max(l.newest, version)
		case m[2] == ".checkpoint.parquet":
			l.checkpoints[version] = []string{name}
		case m[4] != "":
			of := m[1] + m[4]
			parts[of] = append(parts[of], name)
			if n, _ := strconv.Atoi(m[4]); len(parts[of]) == n && l.checkpoints[version] == nil {
				l.checkpoints[version] = parts[of]
			}
		}
	})
	return l, err
}

// load reads the whole table: the newest checkpoint that can be read, and the entries after
// it. First it looks from where _last_checkpoint points to, which may be missing or wrong.
func (t *Table) load(ctx context.Context) (*Snapshot, error) {
	var tried []int64
	var damage error
	for _, from := range slices.Compact([]int64{t.hint(ctx), 0}) {
		l, err := t.list(ctx, from)
		if err != nil {
			return nil, err
		}
		for _, version := range l.versions() {
			if slices.Contains(tried, version) {
				continue
			}
			tried = append(tried, version)
			s := newSnapshot()
			if err := t.readCheckpoint(ctx, l.checkpoints[version], s.set); err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
				damage = errors.Join(damage, err)
				continue
			}
			s.version, s.checkpoint = version, version
			if t.mark, err = t.readMark(ctx, version); err != nil {
				return nil, err
			}
			return s, t.replayAll(ctx, s, l.newest, nil)
		}
		if from == 0 {
			s := newSnapshot()
			return s, t.replayAll(ctx, s, l.newest, damage)
		}
	}
	panic("not reached") // the last of the places is 0
}

// replayAll replays up to the newest entry that was listed. damage says why no checkpoint
// could be used as the start.
func (t *Table) replayAll(ctx context.Context, s *Snapshot, newest int64, damage error) error {
	if err := t.replay(ctx, s, newest); err != nil {
		return err
	}
	if s.version < newest || s.version < 0 && damage != nil {
		return errors.Join(fmt.Errorf("%s: %w: it is missing, and the newest is %d: put it back from a copy, or "+
			"empty the directory and run docgauge load",
			t.options.Files.Describe(t.entryName(s.version+1)), ErrDamaged, newest), damage)
	}
	return nil
}

// lastCheckpoint is the contents of _last_checkpoint.
type lastCheckpoint struct {
	Version       int64 `json:"version"`
	Size          int64 `json:"size"` // actions
	SizeInBytes   int64 `json:"sizeInBytes,omitempty"`
	NumOfAddFiles int64 `json:"numOfAddFiles,omitempty"`
}

// hint returns the version in _last_checkpoint, 0 if it does not say: then all is listed.
func (t *Table) hint(ctx context.Context) int64 {
	f, err := t.options.Files.Open(ctx, t.name(hintName))
	if err != nil {
		return 0
	}
	defer f.Close()
	var last lastCheckpoint
	if err := json.NewDecoder(io.NewSectionReader(f, 0, f.Size())).Decode(&last); err != nil {
		return 0
	}
	return max(0, last.Version)
}
