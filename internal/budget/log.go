package budget

import (
	"context"
	"maps"
	"time"
)

const (
	// groupLife is how long after its entry requests of a group may be sent.
	groupLife = time.Second
	// groupGrowth: a group is at most so many times what was sent of the one before.
	groupGrowth = 4
	// groupShare: a group is at most one in so many of the limit.
	groupShare = 100
	// groupMost is the size of a group without a limit.
	groupMost = 1000
)

// group is an entry of the log: requests that are charged together.
type group struct {
	id    int64
	wall  time.Time // when it was entered, by the clock of the log
	began time.Time // the same by the monotonic clock
	left  int       // slots without a request
	sent  int       // requests sent, or about to be
	open  int       // requests without an answer
	done  time.Time // when the last answer came
}

// entry is one request in the log.
type entry struct {
	group *group
	sent  time.Time // when it was charged
}

// take takes a slot for a request: of the last group, or of a new one that is entered
// in the log. Otherwise free is when to ask again.
func (b *Budget) take(ctx context.Context) (e *entry, free time.Time, err error) {
	end, err := b.beginCharging(ctx)
	if err != nil {
		return nil, free, err
	}
	defer end()
	if e := b.useGroup(b.cfg.Now()); e != nil {
		return e, free, nil
	}
	// An answer to a request of the group goes by the step of the back-off that was reached.
	if _, err := b.cooldown(ctx); err != nil {
		return nil, free, err
	}
	if err := b.giveBack(ctx); err != nil {
		return nil, free, err
	}
	g := new(group)
	now := func() time.Time {
		g.wall, g.began = b.cfg.Now(), time.Now()
		return g.wall
	}
	answered, most := b.takeAnswered(), b.groupSize()
	g.id, g.left, free, err = b.store.Charge(ctx, b.cfg.Name, b.cfg.Limit, most, now, groupLife, Span, b.cfg.Timeout, answered)
	if err != nil {
		b.putBack(answered)
		return nil, free, &StoreError{err}
	}
	if !free.IsZero() {
		return nil, free, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.group = g
	return b.use(g.wall), free, nil
}

// beginCharging waits until no other request charges. The caller calls end.
func (b *Budget) beginCharging(ctx context.Context) (end func(), err error) {
	select {
	case b.charging <- struct{}{}:
		return func() { <-b.charging }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// groupSize returns how many requests the next group has at most. It grows with what is
// sent within a second, so that a process that is killed wastes few slots.
func (b *Budget) groupSize() int {
	most := groupMost
	if b.cfg.Limit > 0 {
		most = b.cfg.Limit / groupShare
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(1, min(most, groupGrowth*b.group.sent))
}

// useGroup takes a slot of the last group, nil if there is none or its time is up. Both
// clocks must say so: the monotonic one stands still while the machine sleeps, and the
// other one can be set. In a cooldown the store is asked in any case: it has the last word
// on it, and shortens it where the clock was set back. A cooldown that another process has
// begun shows when this group ends.
func (b *Budget) useGroup(now time.Time) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room.cooldown.After(now) {
		return nil
	}
	if age := b.group.age(now); b.group.left == 0 || age < 0 || age >= groupLife || time.Since(b.group.began) >= groupLife {
		return nil
	}
	return b.use(now)
}

// leftOver returns how many slots the last group has taken for requests not sent yet. The
// caller holds mu.
func (b *Budget) leftOver(now time.Time) int {
	if age := b.group.age(now); age < 0 || age >= Span {
		return 0 // the log may have freed them
	}
	return b.group.left
}

// age is by the clock of the log.
func (g *group) age(now time.Time) time.Duration { return now.Round(0).Sub(g.wall.Round(0)) }

// use takes a slot of the last group. The caller holds mu.
func (b *Budget) use(now time.Time) *entry {
	b.sent++
	b.group.left--
	b.group.sent++
	b.group.open++
	return &entry{group: b.group, sent: now}
}

// giveBack frees what is left of the last group. If the store fails, its slots stay
// taken, as after a kill. The caller has begun charging.
func (b *Budget) giveBack(ctx context.Context) error {
	b.mu.Lock()
	g := b.group
	n := g.left
	if n > 0 {
		g.left = 0
		b.settle(g)
	}
	b.mu.Unlock()
	if n == 0 {
		return nil
	}
	if err := b.store.Release(ctx, g.id, n); err != nil {
		return &StoreError{err}
	}
	return nil
}

// answer notes a response; the store learns later when the last one of its group came.
func (b *Budget) answer(e *entry, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.group.open--
	if at.After(e.group.done) {
		e.group.done = at
	}
	b.settle(e.group)
}

// settle notes the last response of a group of which nothing more is sent. A request
// that was given up has no answer: its group is held as long as it may be under way. The
// caller holds mu.
func (b *Budget) settle(g *group) {
	if g.left == 0 && g.open == 0 && g.sent > 0 {
		b.answered[g.id] = g.done
	}
}

// release frees the slot of a request that was never sent, and what is left of its
// group: other processes may be able to send.
func (b *Budget) release(ctx context.Context, e *entry) error {
	g := e.group
	b.mu.Lock()
	b.sent--
	g.sent--
	n := 1 + g.left
	g.left = 0
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := b.store.Release(ctx, g.id, n); err != nil {
		return &StoreError{err}
	}
	b.mu.Lock()
	g.open-- // only now: nothing frees of an entry that was answered
	b.settle(g)
	b.mu.Unlock()
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

// Flush frees the slots that were taken for requests not sent yet, and enters the
// responses the store does not know yet. Without it their slots are held as if all had
// been sent and no response had come.
func (b *Budget) Flush(ctx context.Context) error {
	end, err := b.beginCharging(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := b.giveBack(ctx); err != nil {
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
