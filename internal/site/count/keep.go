package count

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// viewsPerCommit is the number of views that Keep puts into a store at once; it bounds memory.
const viewsPerCommit = 1 << 18

// Kept is what Keep has read.
type Kept struct {
	// Report has no readers: the store has them.
	*Report
	Projects []string
	// Files are the logs, without those that are left out.
	Files []string
	// Newest is the time of the newest line; zero without one.
	Newest time.Time
}

// Keep reads logs as Count does, and puts the views of all projects into a store, from which the readers of each window
// can be counted: the same that Count counts in these days. Of the options only Now and Stdin count.
func (r *Rules) Keep(ctx context.Context, paths []string, o Options, into *facts.Store) (k Kept, err error) {
	c := r.newCounting(Options{Now: o.Now, Stdin: o.Stdin})
	projects := r.Projects([]logs.Source{{}})
	c.kept = &kept{store: into, words: c.words, batch: facts.Batch{Projects: projects}}
	now := func() time.Time { return o.Now.Time() }
	for _, v := range c.viewers {
		readers := into.NewIdentifier(projects, now)
		v.All, v.Sources, v.byProof = true, true, false
		v.Identify = func(out *view, who []byte) Reason {
			open, err := readers.Identify(out, who)
			switch {
			case err != nil:
				c.kept.fail(err)
				fallthrough
			case !open:
				return Late
			}
			return ""
		}
	}
	if paths, err = c.readAll(ctx, paths); err == nil {
		err = c.kept.commit(ctx)
	}
	if err != nil {
		return k, err
	}
	k = Kept{Report: c.reading(paths), Projects: projects}
	if c.newest > 0 {
		k.Newest = time.Unix(c.newest, 0).UTC()
	}
	for _, path := range paths {
		if !slices.Contains(c.unknown, path) {
			k.Files = append(k.Files, path)
		}
	}
	return k, nil
}

// kept are the views of a counting that a store gets.
type kept struct {
	store *facts.Store
	words *Vocabulary
	batch facts.Batch // since the last commit
	// The numbers of words that the store has.
	pages, agents, sources int

	mu     sync.Mutex
	failed error // of a viewer
}

func (k *kept) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = cmp.Or(k.failed, err)
}

// add adds the views of a batch.
func (k *kept) add(ctx context.Context, b *Batch) error {
	k.batch.Views = append(append(k.batch.Views, b.Views...), b.Missed...)
	k.batch.Shown = append(k.batch.Shown, b.Shown...)
	if len(k.batch.Views)+len(k.batch.Shown) < viewsPerCommit {
		return nil
	}
	return k.commit(ctx)
}

func (k *kept) commit(ctx context.Context) error {
	k.mu.Lock()
	err := k.failed
	k.mu.Unlock()
	if err != nil {
		return err
	}
	b := &k.batch
	b.Pages, b.Agents, b.Referrals = k.words.After(k.pages, k.agents, k.sources, b.Projects)
	if err := k.store.Commit(ctx, *b); err != nil {
		return err
	}
	k.pages, k.agents, k.sources = k.pages+len(b.Pages), k.agents+len(b.Agents), k.sources+len(b.Referrals)
	b.Views, b.Shown = b.Views[:0], b.Shown[:0]
	return k.store.Merge(ctx)
}
