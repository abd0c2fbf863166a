package budget

import (
	"context"
	"maps"
	"time"
)

// noteEvery is how often requests without a limit are written to the log.
const noteEvery = time.Second

// entry is one request in the log.
type entry struct {
	id   int64     // 0: the store does not know it yet
	sent time.Time // when it was charged
	done time.Time // when the response came, zero: none did
	void bool      // certainly nothing was sent
}

// answer notes a response; the store learns its time later.
func (b *Budget) answer(e *entry, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.done = at
	if e.id != 0 {
		b.answered[e.id] = at
	}
}

// release removes a request that was never sent from the log.
func (b *Budget) release(ctx context.Context, e *entry) error {
	b.mu.Lock()
	b.sent--
	e.void = true
	id := e.id
	b.mu.Unlock()
	if id == 0 {
		return nil // it will not be written, or writeNotes frees it
	}
	return b.free(ctx, id)
}

func (b *Budget) free(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := b.store.Release(ctx, id); err != nil {
		return &StoreError{err}
	}
	b.staleRoom()
	return nil
}

func (b *Budget) takeAnswered() map[int64]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.answered
	b.answered = map[int64]time.Time{}
	return taken
}

func (b *Budget) putBack(answered map[int64]time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.answered, answered)
}

// Flush enters the requests and responses the store does not know yet. Without it
// the slots of the responses are held as if they had never come.
func (b *Budget) Flush(ctx context.Context) error {
	if err := b.writeNotes(ctx); err != nil {
		return err
	}
	answered := b.takeAnswered()
	if len(answered) == 0 {
		return nil
	}
	if err := b.store.Answered(ctx, answered); err != nil {
		b.putBack(answered)
		return &StoreError{err}
	}
	return nil
}

// note keeps a request that is not limited, for a limit that is set within the hour.
// A request that comes a second or more after the last write writes all requests
// noted since then, itself among them, before it is sent; the others are only
// noted. So a crash loses at most the requests sent within a second of the last
// write.
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

// writeNotes writes the noted requests: those with a response as one entry, which
// costs the same for a thousand of them as for one, the others as an entry each,
// because their responses are still to come. One writer takes them, and no request
// waits for it.
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
		// The next request tries again, and is not sent if that fails too.
		b.noted, b.wrote = append(taken, b.noted...), time.Time{}
		maps.Copy(b.answered, answered)
		b.mu.Unlock()
		return &StoreError{err}
	}
	var void []int64
	for i, e := range open { // what happened to them while they were written
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
