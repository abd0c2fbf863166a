package budget

import (
	"context"
	"maps"
	"time"
)

// noteEvery is how often requests without a limit are written to the log.
const noteEvery = time.Second

// note enters a request that no limit holds back, for a limit that is set within
// the hour. Whoever comes a second after the last write writes those noted since
// then, its own among them, before it is sent; all others only note. So a crash
// loses what was sent within a second of the last write, at most.
func (b *Budget) note(ctx context.Context) (*entry, error) {
	e := &entry{sent: b.cfg.Now()}
	b.mu.Lock()
	b.noted = append(b.noted, e)
	due := time.Since(b.wrote) >= noteEvery
	b.mu.Unlock()
	if !due {
		return e, nil
	}
	if err := b.writeNotes(ctx); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		e.void = true
		return nil, err
	}
	return e, nil
}

// writeNotes writes what was noted: the requests that have their response as one
// entry, which costs the same for a thousand of them as for one, each other one as
// an entry of its own, as its response is still to come. They are taken by one
// writer, and none waits for it.
func (b *Budget) writeNotes(ctx context.Context) error {
	b.mu.Lock()
	if len(b.noted) == 0 {
		b.mu.Unlock()
		return nil
	}
	taken, answered := b.noted, b.answered
	b.noted, b.answered, b.wrote = nil, map[int64]time.Time{}, time.Now()
	count, last := 0, time.Time{}
	var open []*entry
	var sent []time.Time
	for _, e := range taken {
		switch {
		case e.void:
		case e.done.IsZero():
			open, sent = append(open, e), append(sent, e.sent)
		default:
			count++
			if e.done.After(last) {
				last = e.done
			}
		}
	}
	b.mu.Unlock()

	ids, err := b.store.Note(ctx, b.cfg.Name, b.cfg.Now, Span, b.cfg.Timeout, count, last, sent, answered)

	b.mu.Lock()
	if err != nil {
		// The next request tries again, and is not sent where that fails too.
		b.noted, b.wrote = append(taken, b.noted...), time.Time{}
		maps.Copy(b.answered, answered)
		b.mu.Unlock()
		return &StoreError{err}
	}
	var void []int64
	for i, e := range open { // what came of them while they were written
		e.id = ids[i]
		if !e.done.IsZero() {
			b.answered[e.id] = e.done
		}
		if e.void {
			void = append(void, e.id)
		}
	}
	b.mu.Unlock()
	for _, id := range void {
		if err := b.free(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
