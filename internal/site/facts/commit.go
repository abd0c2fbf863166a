package facts

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
)

// View is one page that one reader got, or, of kind Missed, a path that it asked for and that is not
// there.
type View struct {
	// Readers are the ids in the epochs of the month before and of the month: see [Store.Keys].
	Readers [2]uint64
	Day     analytics.Date
	Project int32 // of Batch.Projects
	Page    int32
	Agent   int32 // or Browser, or Network
	// Referral is where a person's browser came from, by its number in Batch.Referrals; NoReferral for all else.
	Referral int32
	Bytes    int64 // sent; Unsaid where the line does not say
	Kind     uint8
	Markdown bool // answered as Markdown
}

const (
	// NoReferral is the referral of a view that is not a person's.
	NoReferral = -1
	// Unsaid are the bytes of a view where the line does not say them.
	Unsaid = -1
)

// Shown is the evidence of a day that a reader who claims to be a browser is one.
type Shown struct {
	Readers [2]uint64 // as in View
	Day     analytics.Date
	Project int32
}

// Referral is a source of visits, by its number.
type Referral struct {
	Number      int32
	Name, Class string
}

// Agents that have no number.
const (
	// Browser is a person's.
	Browser = -1
	// Network is the network of a reader who missed a path: it is kept as a reader of the same path, so that it is
	// counted, and forgotten, as readers are.
	Network = -2
)

// Page is a page, by its number, or a path that is not there.
type Page struct {
	Number  int32
	Project string
	Path    string
	// Missed is the month in which a path that is not there was first asked for; 0: a page.
	Missed Epoch
}

// Agent is an agent, by its number.
type Agent struct {
	Number       int32
	Token, Class string
	Hosted       bool
}

// Source is what is known of a log.
type Source struct {
	Name         string
	Watermark    int64            // Unix seconds of the newest line
	PossiblyLost int64            // how often lines may have been lost
	Lines        map[string]int64 // by what became of them
}

// Batch is what is made durable together.
type Batch struct {
	Projects  []string
	Views     []View
	Pages     []Page     // new ones
	Agents    []Agent    // new ones
	Referrals []Referral // new ones
	Shown     []Shown
	Positions map[string][]byte // by key; nil: forgotten
	Sources   []Source          // in the place of what was known
	Pushed    Pushed            // new ones
	// Forgotten is the generation up to which ids that were pushed are forgotten.
	Forgotten int64
}

// part is a day of a project, or evidence of a month: what becomes a segment in each of two epochs.
type part struct {
	project  int32
	evidence bool
	day      analytics.Date // of evidence the first of the month
}

// Commit makes a batch durable: all of it or, after an error, most probably nothing. [Store.Resume] tells.
func (s *Store) Commit(ctx context.Context, b Batch) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.keepKeys(ctx); err != nil {
		return err
	}
	b.Shown = s.known.unknown(b.Shown)
	var made []segment
	for of, entries := range partsOf(&b) {
		month := EpochOf(of.day)
		both := [2]segment{}
		var group errgroup.Group
		for i := range both {
			both[i] = segment{number: s.nextNumber(), project: b.Projects[of.project], epoch: month - 1 + Epoch(i),
				evidence: of.evidence, day: of.day}
			if of.evidence {
				both[i].day = both[i].epoch.To() - 1
			}
			group.Go(func() (err error) {
				both[i].size, err = s.build(both[i], entries.n, func(k int) entry { return entries.of(i, k) })
				return err
			})
		}
		err := group.Wait()
		if made = append(made, both[:]...); err != nil {
			return errors.Join(err, s.discard(made)) // at once: the disk may be full
		}
	}
	if len(made) > 0 {
		if err := s.syncSegments(); err != nil {
			return errors.Join(err, s.discard(made))
		}
	}
	if len(b.Pages) > 0 {
		if _, err := s.addPages(ctx, b.Pages); err != nil {
			return errors.Join(err, s.discard(made))
		}
	}
	if err := s.write(ctx, func(tx *sql.Tx) error { return commit(tx, b, made) }); err != nil {
		s.unsettled.Store(true)
		s.naming.Lock()
		s.names = nil // they are read again
		s.naming.Unlock()
		return err
	}
	s.known.add(b.Shown)
	return nil
}

// partEntries are the n entries of a part: entry k in the epoch of the month before, 0, or of the month, 1.
type partEntries struct {
	n  int
	of func(epoch, k int) entry
}

// partsOf returns the parts of a batch.
func partsOf(b *Batch) map[part]partEntries {
	parts := map[part]partEntries{}
	for of, views := range runs(b.Views, func(v *View) part { return part{v.Project, false, v.Day} }) {
		parts[of] = partEntries{len(views), func(epoch, k int) entry {
			v := &views[k]
			return entry{v.Readers[epoch], min(max(v.Bytes, Unsaid), maxBytes), v.Page, v.Agent, 1, categoryOf(v)}
		}}
	}
	for of, shown := range runs(b.Shown, func(v *Shown) part { return part{v.Project, true, EpochOf(v.Day).From()} }) {
		first := [...]analytics.Date{(EpochOf(of.day) - 1).From(), of.day}
		parts[of] = partEntries{len(shown), func(epoch, k int) entry {
			v := &shown[k]
			return entry{id: v.Readers[epoch], agent: agentOfDay(int32(v.Day - first[epoch]))}
		}}
	}
	return parts
}

// runs returns what belongs to each part.
func runs[E any](all []E, of func(*E) part) map[part][]E {
	parts := map[part][]E{}
	for start := 0; start < len(all); {
		part := of(&all[start])
		end := start + 1
		for end < len(all) && of(&all[end]) == part {
			end++
		}
		if run := all[start:end:end]; parts[part] == nil {
			parts[part] = run // most batches are of one day, and need no copy
		} else {
			parts[part] = append(parts[part], run...)
		}
		start = end
	}
	return parts
}

// knownEvidence has readers whose evidence is durable, by their ids in the epoch of the month, with the first day of it.
// It forgets some, because its size is fixed: their evidence is written once more, and merged.
type knownEvidence []struct {
	id  uint64
	day analytics.Date
}

// manyKnown is the size of knownEvidence: 2 MiB.
const manyKnown = 1 << 17

// unknown returns the evidence that is not known.
func (k knownEvidence) unknown(all []Shown) (unknown []Shown) {
	for _, v := range all {
		if at := k[v.Readers[1]%manyKnown]; at.id != v.Readers[1] || at.day > v.Day {
			unknown = append(unknown, v)
		}
	}
	return unknown
}

// add adds evidence that was unknown and has become durable.
func (k knownEvidence) add(all []Shown) {
	for _, v := range all {
		if at := &k[v.Readers[1]%manyKnown]; at.id != v.Readers[1] || at.day > v.Day {
			at.id, at.day = v.Readers[1], v.Day
		}
	}
}

// syncSegments makes the names of segments durable.
func (s *Store) syncSegments() error {
	if s.temporary {
		return nil
	}
	return s.step("directory", func() error { return durable.SyncDir(filepath.Join(s.dir, segmentDir)) })
}

func commit(tx *sql.Tx, b Batch, made []segment) error {
	type changedDay struct {
		project  string
		evidence bool
		day      analytics.Date
	}
	changed, newest := map[changedDay]bool{}, int64(0)
	for _, seg := range made {
		var open bool
		err := tx.QueryRow("SELECT key IS NOT NULL FROM epochs WHERE project = ? AND epoch = ?", seg.project,
			int(seg.epoch)).Scan(&open)
		if err != nil || !open {
			return errors.Join(err, fmt.Errorf("epoch %s of %s: is not open", seg.epoch.From(), seg.project))
		}
		if err := insert(tx, seg); err != nil {
			return err
		}
		newest = max(newest, seg.number)
		if !seg.evidence {
			changed[changedDay{seg.project, false, seg.day}] = true
		}
	}
	for _, v := range b.Shown {
		changed[changedDay{b.Projects[v.Project], true, v.Day}] = true
	}
	for c := range changed {
		if _, err := tx.Exec("INSERT OR REPLACE INTO days (project, evidence, day, changed) VALUES (?, ?, ?, ?)", c.project,
			c.evidence, int(c.day), newest); err != nil {
			return err
		}
	}
	for _, p := range b.Pages {
		if _, err := tx.Exec("INSERT INTO pages (number, project, path, missed) VALUES (?, ?, ?, ?)", p.Number,
			p.Project, p.Path, int(p.Missed)); err != nil {
			return err
		}
	}
	for _, a := range b.Agents {
		if _, err := tx.Exec("INSERT INTO agents (number, token, class, hosted) VALUES (?, ?, ?, ?)", a.Number, a.Token,
			a.Class, a.Hosted); err != nil {
			return err
		}
	}
	for _, r := range b.Referrals {
		if _, err := tx.Exec("INSERT INTO referrals (number, name, class) VALUES (?, ?, ?)", r.Number, r.Name,
			r.Class); err != nil {
			return err
		}
	}
	if err := b.Pushed.keep(tx, b.Forgotten); err != nil {
		return err
	}
	for key, position := range b.Positions {
		var err error
		if position == nil {
			_, err = tx.Exec("DELETE FROM positions WHERE key = ?", key)
		} else {
			_, err = tx.Exec("INSERT INTO positions (key, position) VALUES (?, ?) "+
				"ON CONFLICT (key) DO UPDATE SET position = excluded.position", key, position)
		}
		if err != nil {
			return err
		}
	}
	for _, src := range b.Sources {
		lines, err := json.Marshal(src.Lines)
		if err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO sources (source, watermark, possibly_lost, lines) VALUES (?, ?, ?, ?) "+
			"ON CONFLICT (source) DO UPDATE SET watermark = excluded.watermark, possibly_lost = "+
			"excluded.possibly_lost, "+
			"lines = excluded.lines", src.Name, src.Watermark, src.PossiblyLost, string(lines)); err != nil {
			return err
		}
	}
	return nil
}

func insert(tx *sql.Tx, seg segment) error {
	_, err := tx.Exec("INSERT INTO segments (number, project, epoch, evidence, day, level, size) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?)",
		seg.number, seg.project, int(seg.epoch), seg.evidence, int(seg.day), seg.level, seg.size)
	return err
}

// discard removes segments that no row names.
func (s *Store) discard(segs []segment) (err error) {
	for _, seg := range segs {
		rerr := s.step("removal", func() error {
			return os.Remove(filepath.Join(s.dir, segmentDir, segmentName(seg.number)))
		})
		if !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		s.unsettled.Store(true)
	}
	return err
}

// resume is what the store knows when a collector starts: the pages, agents, referrals and sources it has, and how far
// each log has been read.
type resume struct {
	Pages     []Page
	Agents    []Agent
	Referrals []Referral
	Positions map[string][]byte
	Sources   []Source
}

// Resume returns what the commits so far have left.
func (s *Store) Resume(ctx context.Context) (r resume, err error) {
	if r.Pages, err = s.Pages(ctx); err != nil {
		return r, err
	}
	if r.Agents, err = s.agents(ctx); err != nil {
		return r, err
	}
	if r.Referrals, err = s.referrals(ctx); err != nil {
		return r, err
	}
	r.Positions = map[string][]byte{}
	if _, err = query(ctx, s.sql, func(row scanner) (struct{}, error) {
		var key string
		var position []byte
		err := row.Scan(&key, &position)
		r.Positions[key] = position
		return struct{}{}, err
	}, "SELECT key, position FROM positions"); err != nil {
		return r, err
	}
	r.Sources, err = s.Sources(ctx)
	return r, err
}

// Sources returns what is known of the logs.
func (s *Store) Sources(ctx context.Context) ([]Source, error) {
	return query(ctx, s.sql, func(row scanner) (src Source, err error) {
		var lines string
		if err = row.Scan(&src.Name, &src.Watermark, &src.PossiblyLost, &lines); err == nil {
			err = json.Unmarshal([]byte(lines), &src.Lines)
		}
		return src, err
	}, "SELECT source, watermark, possibly_lost, lines FROM sources ORDER BY source")
}

// Pages returns all pages, by number.
func (s *Store) Pages(ctx context.Context) ([]Page, error) {
	return query(ctx, s.sql, func(row scanner) (p Page, err error) {
		err = row.Scan(&p.Number, &p.Project, &p.Path, &p.Missed)
		return p, err
	}, "SELECT number, project, path, missed FROM pages ORDER BY number")
}

// agents returns all agents, by number.
func (s *Store) agents(ctx context.Context) ([]Agent, error) {
	return query(ctx, s.sql, func(row scanner) (a Agent, err error) {
		err = row.Scan(&a.Number, &a.Token, &a.Class, &a.Hosted)
		return a, err
	}, "SELECT number, token, class, hosted FROM agents ORDER BY number")
}

// referrals returns all sources of visits, by number.
func (s *Store) referrals(ctx context.Context) ([]Referral, error) {
	return query(ctx, s.sql, func(row scanner) (r Referral, err error) {
		err = row.Scan(&r.Number, &r.Name, &r.Class)
		return r, err
	}, "SELECT number, name, class FROM referrals ORDER BY number")
}

// scanner is a row of a query.
type scanner interface{ Scan(into ...any) error }

func query[T any](ctx context.Context, db *sql.DB, scan func(scanner) (T, error), text string,
	args ...any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, unusable(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err says it
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, unusable(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, unusable(err)
	}
	return all, nil
}
