package facts

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
)

// ErrRenumbered: the epoch was closed, and its readers have other numbers than before.
var ErrRenumbered = errors.New("the epoch was closed meanwhile")

// Numbering is how exports number the readers of an epoch of a project: by a keyed hash of their ids, so that an
// export has no id of the directory. That key follows from the key of the epoch and is destroyed with it. A closed
// epoch, whose ids were made anew, has a numbering of another name.
type Numbering struct {
	Name    string // empty: there is no such epoch, and so no facts
	project string
	epoch   Epoch
	hash    Hash
}

// reader is the number of a reader in exports.
func (n Numbering) reader(id uint64) uint64 {
	return n.hash.ID(binary.LittleEndian.AppendUint64(nil, id))
}

// Numbering returns the present numbering of an epoch.
func (s *Store) Numbering(ctx context.Context, project string, epoch Epoch) (n Numbering, err error) {
	var key []byte
	var opened int64
	n.project, n.epoch = project, epoch
	err = s.sql.QueryRowContext(ctx, "SELECT key, opened FROM epochs WHERE project = ? AND epoch = ?", project,
		int(epoch)).Scan(&key, &opened)
	if errors.Is(err, sql.ErrNoRows) {
		return n, nil
	}
	if err != nil {
		return n, unusable(err)
	}
	if key == nil { // the ids belong to no address, and the number of an opening tells this closing from others
		key = binary.LittleEndian.AppendUint64(make([]byte, KeySize-8), uint64(opened))
	}
	derive := func(what string) []byte {
		low, high := NewHash(key).Sum([]byte(what))
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, low), high)
	}
	n.hash, n.Name = NewHash(derive("readers of exports")), hex.EncodeToString(derive("name of exports")[:8])
	return n, nil
}

// openDay opens the facts of a day, and the evidence of the epoch, or one of the two, as long as the numbering is the
// present one.
func (s *Store) openDay(ctx context.Context, n Numbering, day analytics.Date, facts, evidence bool) (*window, error) {
	to := day
	if facts {
		to++
	}
	w, err := s.openEpoch(ctx, n.project, n.epoch, day, to, evidence)
	if err != nil {
		return nil, err
	}
	if now, err := s.Numbering(ctx, n.project, n.epoch); err != nil || now.Name != n.Name {
		w.close()
		return nil, errors.Join(err, ErrRenumbered)
	}
	return w, nil
}

// Evidence calls each with the readers whose first evidence in the epoch is of a day.
func (s *Store) Evidence(ctx context.Context, n Numbering, day analytics.Date, each func(reader uint64) error) error {
	w, err := s.openDay(ctx, n, day, false, true)
	if err != nil {
		return err
	}
	defer w.close()
	for stripe := range stripes {
		for _, o := range w.evidence {
			all, err := o.entries(stripe, nil)
			if err != nil {
				return err
			}
			for _, e := range all {
				if e.agent != agentOfDay(int32(day-n.epoch.From())) {
					continue
				}
				if err := each(n.reader(e.id)); err != nil {
					return err
				}
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// Change is a day of a project that has facts, or on which readers showed evidence, and the number of the newest commit
// that added some.
type Change struct {
	Day      analytics.Date
	Evidence bool
	Changed  int64
}

// Changes returns the changes of some days, facts first, the oldest first.
func (s *Store) Changes(ctx context.Context, project string, from, to analytics.Date) ([]Change, error) {
	return query(ctx, s.sql, func(row scanner) (c Change, err error) {
		err = row.Scan(&c.Day, &c.Evidence, &c.Changed)
		return c, err
	}, "SELECT day, evidence, changed FROM days WHERE project = ? AND day >= ? AND day < ? ORDER BY evidence, day",
		project, int(from), int(to))
}

// LockExport takes the lock of exports of the site: there is one at a time.
func (s *Store) LockExport() (release func() error, err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "export.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := durable.TryLock(f)
	if err != nil || !held {
		err = fmt.Errorf("%s: another export is at work: %w", f.Name(), errors.Join(err, ErrLocked))
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
