package site

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// manifestName is the name of the manifest of an epoch, which has a [treeFile] on each line.
const manifestName = "manifest.jsonl"

// treeFile is a file of a tree: the facts of a day, or the readers with their first evidence on it. It is below the
// directory of its epoch, and never changes: facts that were added to a day are in a file of a greater version.
type treeFile struct {
	Kind      string         `json:"kind"` // facts or evidence
	Day       analytics.Date `json:"day"`
	Version   int64          `json:"version"`
	Numbering string         `json:"numbering"`
	File      string         `json:"file"`
}

// tree writes the facts of a project to a tree of days. Files come first, whole; then one replacement of the manifest
// makes them those that count; what no manifest names any more is removed last. A run that is killed between two of
// these steps leaves files that the next run of the same days uses or removes.
type tree struct {
	store          *facts.Store
	to             filestore.Store
	project        string
	written, valid int
}

func (a commands) exportTree(ctx context.Context, o exportOptions, root string) error {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	from, to, err := input.DateFlags(o.from, o.to, "last that is written")
	if err != nil {
		return err
	}
	before := facts.Epoch(0)
	switch o.epoch {
	case "", "current":
	case "previous":
		before = 1
	default:
		return input.Usagef("--epoch %.40q: want current or previous", o.epoch)
	}
	if o.project, err = a.project(c, o.project); err != nil {
		return err
	}
	place, err := filestore.New(root)
	if err != nil {
		return input.Usagef("%s: %w", root, err)
	}
	err = a.withStore(func(store *facts.Store) error {
		release, err := store.LockExport()
		if err != nil {
			return err
		}
		defer release() //nolint:errcheck // the lock ends with the process
		if err := place.Prepare(ctx); err != nil {
			return err
		}
		t := tree{store: store, to: place, project: o.project}
		days, err := t.epochs(ctx)
		if err != nil {
			return err
		}
		for first := *from; first < *to; {
			month := facts.EpochOf(first)
			next := min((month + 1).From(), *to)
			days[month-before] = analytics.Window{From: first, To: next}
			first = next
		}
		for _, epoch := range slices.Sorted(maps.Keys(days)) {
			err := t.write(ctx, epoch, days[epoch])
			if errors.Is(err, facts.ErrRenumbered) { // that happens once to an epoch
				err = t.write(ctx, epoch, days[epoch])
			}
			if err != nil {
				return err
			}
		}
		a.Note("%s: wrote %s, of %d", place.Location(), format.Plural(t.written, "file"), t.valid)
		return nil
	})
	return errors.Join(err, place.Close())
}

// dir is the directory of the project.
func (t *tree) dir() string { return "facts/v1/p=" + t.project }

const epochLayout = "epoch=2006-01"

// epochs returns the epochs that the tree has, each with no day: of those only what was closed is written again.
func (t *tree) epochs(ctx context.Context) (map[facts.Epoch]analytics.Window, error) {
	all := map[facts.Epoch]analytics.Window{}
	err := t.to.List(ctx, t.dir(), "", func(name string) {
		dir, file := path.Split(name)
		if first, err := time.Parse(epochLayout, path.Base(dir)); err == nil && file == manifestName {
			day := analytics.DateOf(first)
			all[facts.EpochOf(day)] = analytics.Window{From: day, To: day}
		}
	})
	return all, err
}

// write writes the days of an epoch, and the evidence of all its days before their end; and where the tree has another
// numbering of the epoch, all days that it has.
func (t *tree) write(ctx context.Context, epoch facts.Epoch, days analytics.Window) error {
	n, err := t.store.Numbering(ctx, t.project, epoch)
	if err != nil {
		return err
	}
	dir := path.Join(t.dir(), epoch.From().Time().Format(epochLayout))
	former, err := t.manifest(ctx, dir)
	if err != nil {
		return err
	}
	var files []treeFile
	wanted, until := map[analytics.Date]bool{}, days.To
	for day := days.From; day < days.To; day++ {
		wanted[day] = true
	}
	for _, f := range former {
		until = max(until, f.Day+1)
	}
	present := map[string]bool{}
	if err := t.to.List(ctx, dir, "", func(name string) { present[name] = true }); err != nil {
		return err
	}
	changes, err := t.store.Changes(ctx, t.project, epoch.From(), min(until, epoch.To()))
	if err != nil {
		return err
	}
	for _, f := range former { // closing an epoch changes its numbering and keeps its days
		isThere := slices.ContainsFunc(changes, func(c facts.Change) bool {
			return c.Day == f.Day && c.Evidence == (f.Kind == "evidence")
		})
		switch isFacts := f.Kind == "facts"; {
		case f.Numbering == n.Name && (!isThere || isFacts && !wanted[f.Day]): // also what the site keeps no longer
			files = append(files, f)
		case !isThere:
			return fmt.Errorf("%s has facts of %s, and DOCGAUGE_SITE_DIR has none: it is another site's, or older than "+
				"DOCGAUGE_SITE_RETENTION; if it is to go, remove it", t.to.Describe(dir), f.Day)
		case isFacts:
			wanted[f.Day] = true
		}
	}
	for _, c := range changes {
		f := treeFile{Kind: "facts", Day: c.Day, Version: c.Changed, Numbering: n.Name}
		if c.Evidence {
			f.Kind = "evidence"
		} else if !wanted[c.Day] {
			continue
		}
		f.File = fmt.Sprintf("n=%s/%s-%s-%d.parquet", n.Name, f.Kind, f.Day, f.Version)
		if name := path.Join(dir, f.File); !present[name] {
			if err := t.publish(ctx, name, func(to io.Writer) error { return t.table(ctx, n, f, to) }); err != nil {
				return fmt.Errorf("%s: %w", t.to.Describe(name), err)
			}
			t.written++
		}
		files = append(files, f)
	}
	if now, err := t.store.Numbering(ctx, t.project, epoch); err != nil || now.Name != n.Name {
		return errors.Join(err, facts.ErrRenumbered)
	}
	t.valid += len(files)
	slices.SortFunc(files, func(a, b treeFile) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), cmp.Compare(a.Day, b.Day))
	})
	if !slices.Equal(files, former) {
		if err := t.replace(ctx, dir, files); err != nil {
			return err
		}
	}
	// Readers that have the former manifest get an error from now on, and never numbers of two numberings.
	delete(present, path.Join(dir, manifestName))
	for _, f := range files {
		delete(present, path.Join(dir, f.File))
	}
	for name := range present {
		if err := t.to.Remove(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", t.to.Describe(name), err)
		}
	}
	return nil
}

// table writes one file.
func (t *tree) table(ctx context.Context, n facts.Numbering, f treeFile, to io.Writer) error {
	if f.Kind == "facts" {
		return writeFactsOf(ctx, t.store, n, t.project, f.Day, false, to)
	}
	out := bufio.NewWriter(to)
	err := archive.WriteTable(out, []string{"project", "day"}, []string{"reader"},
		func(add func([]string, []int64) error) error {
			return t.store.Evidence(ctx, n, f.Day, func(reader uint64) error {
				return add([]string{t.project, f.Day.String()}, []int64{int64(reader)})
			})
		})
	return errors.Join(err, out.Flush())
}

// replace makes files those that count.
func (t *tree) replace(ctx context.Context, dir string, files []treeFile) error {
	var text bytes.Buffer
	for _, f := range files {
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	manifest := path.Join(dir, manifestName)
	if err := t.publish(ctx, manifest, func(to io.Writer) error {
		_, err := to.Write(text.Bytes())
		return err
	}); err != nil {
		return fmt.Errorf("%s: %w", t.to.Describe(manifest), err)
	}
	return nil
}

// manifest reads the manifest of an epoch; none without one.
func (t *tree) manifest(ctx context.Context, dir string) (files []treeFile, err error) {
	name := path.Join(dir, manifestName)
	f, err := t.to.OpenWhole(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	for lines := json.NewDecoder(io.NewSectionReader(f, 0, f.Size())); ; {
		var one treeFile
		err := lines.Decode(&one)
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: remove it, and export all its days again", t.to.Describe(name), err)
		}
		files = append(files, one)
	}
}

// publish gives a file what write writes, whole.
func (t *tree) publish(ctx context.Context, name string, write func(io.Writer) error) error {
	staged := t.to.StagingFile()
	f, err := os.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(staged) //nolint:errcheck // a directory has renamed it
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return t.to.Publish(ctx, staged, name)
}
