package facts

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dchest/siphash"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Epoch is two months, called by the first: months since the year 0.
type Epoch int

// EpochOf is the epoch that begins in the month of a day.
func EpochOf(day analytics.Date) Epoch {
	t := day.Time()
	return Epoch(12*t.Year() + int(t.Month()) - 1)
}

func (e Epoch) month(after int) analytics.Date {
	m := int(e) + after
	return analytics.NewDate(m/12, time.Month(m%12+1), 1)
}

// From is the first day of the epoch.
func (e Epoch) From() analytics.Date { return e.month(0) }

// To is the day after its last.
func (e Epoch) To() analytics.Date { return e.month(2) }

// KeySize is the size of the key of an epoch: 16 bytes.
const KeySize = 16

// Hash is the keyed MAC of readers: SipHash-2-4 with a key and a result of 128 bits. The zero Hash has the zero key.
type Hash struct{ k0, k1 uint64 }

// NewHash returns the hash under a key of [KeySize] bytes.
func NewHash(key []byte) Hash {
	return Hash{binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[8:KeySize])}
}

// ForgottenHash returns the hash under a random key that nothing else has.
func ForgottenHash() Hash {
	var key [KeySize]byte
	rand.Read(key[:])
	return NewHash(key[:])
}

// Sum is the MAC of what identifies a reader.
func (h Hash) Sum(who []byte) (low, high uint64) { return siphash.Hash128(h.k0, h.k1, who) }

// ID is the id of what identifies a reader: the first 64 bits of the MAC.
func (h Hash) ID(who []byte) uint64 {
	id, _ := h.Sum(who)
	return id
}

// Keys returns the keys under which a view of a month is kept: the keys of the epoch before, and of the
// one that begins with the month. New ones become durable at the next Commit, before any view that it has. open is
// false if one of the two is closed: then the view is late, and counts in no window.
func (s *Store) Keys(ctx context.Context, project string, month Epoch, now time.Time) (keys [2][]byte,
	open bool, err error) {
	s.keying.Lock()
	defer s.keying.Unlock()
	var missing []int
	for i := range keys {
		if made, ok := s.made[epochOf{project, month - 1 + Epoch(i)}]; ok {
			keys[i] = made.key
			continue
		}
		err := s.sql.QueryRowContext(ctx, "SELECT key FROM epochs WHERE project = ? AND epoch = ?", project,
			int(month)-1+i).Scan(&keys[i])
		switch {
		case errors.Is(err, sql.ErrNoRows):
			missing = append(missing, i)
		case err != nil:
			return keys, false, unusable(err)
		case keys[i] == nil:
			return keys, false, nil
		}
	}
	for _, i := range missing {
		keys[i] = make([]byte, KeySize)
		rand.Read(keys[i])
		s.made[epochOf{project, month - 1 + Epoch(i)}] = newKey{keys[i], now}
	}
	return keys, true, nil
}

// epochOf is an epoch of a project.
type epochOf struct {
	project string
	epoch   Epoch
}

// newKey is the key of an epoch that is not durable yet.
type newKey struct {
	key    []byte
	opened time.Time
}

// keepKeys makes the new keys durable, in one transaction for all projects.
func (s *Store) keepKeys(ctx context.Context) error {
	s.keying.Lock()
	defer s.keying.Unlock()
	if len(s.made) == 0 {
		return nil
	}
	err := s.write(ctx, func(tx *sql.Tx) error {
		for of, made := range s.made {
			if s.temporary {
				made.key = []byte{} // it is open, and no other process asks
			}
			// One that is there is of a transaction that succeeded although its commit was an error.
			if _, err := tx.Exec("INSERT INTO epochs (project, epoch, key, opened) VALUES (?, ?, ?, ?) "+
				"ON CONFLICT DO NOTHING", of.project, int(of.epoch), made.key, made.opened.Unix()); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !s.temporary {
		clear(s.made)
	}
	return err
}

// Identifier gives views the ids of their readers, for one goroutine.
type Identifier struct {
	store    *Store
	projects []string
	now      func() time.Time
	keys     map[projectMonth]*epochKeys
}

type projectMonth struct {
	project int32
	month   Epoch
}

// epochKeys are the keys of the two epochs with a month; nil once it is closed.
type epochKeys struct{ previous, current Hash }

// NewIdentifier returns an identifier of the readers of some projects, whose numbers views have.
func (s *Store) NewIdentifier(projects []string, now func() time.Time) *Identifier {
	return &Identifier{s, projects, now, map[projectMonth]*epochKeys{}}
}

// Identify gives a view its reader's ids in the two epochs that have its month. open is false if one of them is closed;
// after an error it is false for the whole month.
func (i *Identifier) Identify(out *View, who []byte) (open bool, err error) {
	month := projectMonth{out.Project, EpochOf(out.Day)}
	k, known := i.keys[month]
	if !known {
		var keys [2][]byte
		keys, open, err = i.store.Keys(context.Background(), i.projects[month.project], month.month, i.now())
		if err == nil && open {
			k = &epochKeys{NewHash(keys[0]), NewHash(keys[1])}
		}
		i.keys[month] = k
	}
	if k == nil {
		return false, err
	}
	out.Readers = [2]uint64{k.previous.ID(who), k.current.ID(who)}
	return true, nil
}

// Forget forgets the keys, some of which may have been destroyed.
func (i *Identifier) Forget() { clear(i.keys) }

// OpenEpoch is an epoch that has a key.
type OpenEpoch struct {
	Project string
	Epoch   Epoch
	Opened  time.Time
}

// OpenEpochs returns the epochs that are open, the oldest first.
func (s *Store) OpenEpochs(ctx context.Context) ([]OpenEpoch, error) {
	return query(ctx, s.sql, func(row scanner) (e OpenEpoch, err error) {
		var opened int64
		err = row.Scan(&e.Project, &e.Epoch, &opened)
		e.Opened = time.Unix(opened, 0).UTC()
		return e, err
	}, "SELECT project, epoch, opened FROM epochs WHERE key IS NOT NULL ORDER BY epoch, project")
}

// Reopen says that the epochs that were opened after a time were opened then.
func (s *Store) Reopen(ctx context.Context, now time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE epochs SET opened = ? WHERE opened > ?", now.Unix(), now.Unix())
		return err
	})
}

// CloseEpoch destroys the key of an epoch, and all ids under it: its segments are written again with
// ids under a key that nothing keeps. Until the one transaction at the end, nothing has changed. The
// segments of a day that has a damaged one are removed, and are the error: one that was put back from a
// backup would have other ids than the other days. The day stays damaged, and so does evidence.
func (s *Store) CloseEpoch(ctx context.Context, project string, epoch Epoch) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.settle(ctx); err != nil {
		return err
	}
	all, err := s.segments(ctx, "project = ? AND epoch = ?", project, int(epoch))
	if err != nil {
		return err
	}
	again := ForgottenHash()
	rekey := func(id uint64) uint64 { return again.ID(binary.LittleEndian.AppendUint64(nil, id)) }
	together := map[part][]segment{}
	for _, seg := range all {
		of := part{evidence: seg.evidence, day: seg.day}
		together[of] = append(together[of], seg)
	}
	var old, made, lost []segment
	var damaged error
	for _, segs := range together {
		one, err := s.rekey(segs, rekey)
		if errors.Is(err, ErrDamaged) {
			damaged, lost = errors.Join(damaged, err), append(lost, segs...)
			continue
		}
		if err != nil {
			return errors.Join(err, s.discard(made))
		}
		old, made = append(old, segs...), append(made, one)
	}
	err = s.replace(ctx, old, made, func(tx *sql.Tx) error {
		res, err := tx.Exec("UPDATE epochs SET key = NULL WHERE project = ? AND epoch = ?", project, int(epoch))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, fmt.Errorf("epoch %s of %s: is not there", epoch.From(), project))
		}
		for _, seg := range lost {
			if _, err := tx.Exec("UPDATE segments SET size = 0 WHERE number = ?", seg.number); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = s.discard(lost)
	}
	return cmp.Or(err, damaged)
}

// Forget makes SQLite overwrite what it has deleted, also in its log. It must be called after
// CloseEpoch; busy reports that another process reads, and that it must be called again.
func (s *Store) Forget(ctx context.Context) (busy bool, err error) {
	var blocked, pages, moved int
	err = s.step("checkpoint", func() error {
		return s.sql.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &pages, &moved)
	})
	return blocked != 0, err
}
