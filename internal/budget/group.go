package budget

import (
	"context"
	"maps"
	"time"
)

const (
	// groupLife is how long after its entry requests of a group may be sent.
	groupLife = time.Second
	// groupGrowth: a group has at most groupGrowth times the sent requests of the previous group.
	groupGrowth = 4
	// groupShare: a group is at most the limit divided by groupShare.
	groupShare = 100
	// maxGroup is the size of a group without a limit.
	maxGroup = 1000
)

// group is an entry of the log: requests that are charged together. Charging each alone makes readings under a budget
// 20 times slower where the service is fast.
type group struct {
	id    int64
	wall  time.Time // when it was entered, by the clock of the log
	began time.Time // the same by the monotonic clock
	left  int       // slots without a request
	sent  int       // requests sent, or about to be
	open  int       // requests without an answer
	done  time.Time // when the last answer came
}

// age is by the clock of the log.
func (g *group) age(now time.Time) time.Duration { return now.Round(0).Sub(g.wall.Round(0)) }

// entry is one request in the log.
type entry struct {
	group *group
	sent  time.Time // when it was charged
}

// take takes a slot for a request: of the last group, or of a new one that is entered in the log.
// Otherwise free is when to ask again.
func (b *Budget) take(ctx context.Context) (e *entry, free time.Time, err error) {
	if err := b.beginCharging(ctx); err != nil {
		return nil, free, err
	}
	defer func() { <-b.charging }()
	if e := b.useGroup(b.opts.Now()); e != nil {
		return e, free, nil
	}
	// An answer to a request of the group goes by the step of the back-off that was reached.
	if _, err := b.readCooldown(ctx); err != nil {
		return nil, free, err
	}
	if err := b.giveBack(ctx, b.group, 0); err != nil {
		return nil, free, err
	}
	if err := b.confirm(ctx); err != nil {
		return nil, free, err
	}
	b.mu.Lock()
	answered := maps.Clone(b.answered)
	most := maxGroup
	if b.opts.Limit > 0 {
		most = b.opts.Limit / groupShare
	}
	most = max(1, min(most, groupGrowth*b.group.sent)) // a process that is killed wastes few slots
	b.mu.Unlock()

	g := &group{wall: b.opts.Now(), began: time.Now()}
	g.id, g.left, free, err = b.log.Charge(ctx, b.opts.Limit, most, groupLife, answered)
	if err != nil {
		return nil, free, &logError{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range answered {
		delete(b.answered, id)
	}
	if !free.IsZero() {
		return nil, free, nil
	}
	b.group = g
	return b.use(), free, nil
}

// confirm asks the service whether the clock is right, if a slot depends on that. Without an answer the
// log frees nothing.
func (b *Budget) confirm(ctx context.Context) error {
	if b.opts.Confirm == nil {
		return nil
	}
	doubt, err := b.log.InDoubt(ctx, b.opts.Limit)
	switch {
	case err != nil:
		return &logError{err}
	case !doubt:
		return nil
	}
	return b.opts.Confirm(ctx)
}

// beginCharging waits until no other request charges; the caller then takes from b.charging.
func (b *Budget) beginCharging(ctx context.Context) error {
	select {
	case b.charging <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// useGroup takes a slot of the last group. It returns nil if no slot is left or the group has
// expired by either clock: the monotonic clock stops while the machine sleeps, and the wall clock
// can be set. During a cooldown it always returns nil, so that the log is asked: the log decides
// when the cooldown ends, and shortens it if the clock was set back. A cooldown that another
// process begins is noticed when this group ends.
func (b *Budget) useGroup(now time.Time) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	age := b.group.age(now)
	isOver := age < 0 || age >= groupLife || time.Since(b.group.began) >= groupLife
	if b.cooldown.After(now) || b.group.left == 0 || isOver {
		return nil
	}
	return b.use()
}

// use takes a slot of the last group. The caller holds mu.
func (b *Budget) use() *entry {
	b.sent++
	b.group.left--
	b.group.sent++
	b.group.open++
	return &entry{group: b.group, sent: b.opts.Now()}
}

// giveBack frees slots of a group for other processes: the slots of requests that could not be sent, and the rest of
// the group. If the log fails, they stay taken, as after a kill.
func (b *Budget) giveBack(ctx context.Context, g *group, unsent int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	b.mu.Lock()
	n := unsent + g.left
	b.sent -= unsent
	g.sent -= unsent
	g.left = 0
	b.settle(g)
	if n > 0 {
		b.reading = reading{}
	}
	b.mu.Unlock()
	if n == 0 {
		return nil
	}
	if err := b.log.Release(ctx, g.id, n); err != nil {
		return &logError{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g.open -= unsent // only now: nothing is freed of an entry that was answered
	b.settle(g)
	b.reading = reading{}
	return nil
}

// answer notes a response; the log learns later when the last response of its group came.
func (b *Budget) answer(e *entry, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.group.open--
	if at.After(e.group.done) {
		e.group.done = at
	}
	b.settle(e.group)
}

// settle notes the last response of a group of which nothing more is sent. A request that was given
// up has no answer: its group is occupied as long as the request may be on its way. The caller
// holds mu.
func (b *Budget) settle(g *group) {
	if g.left == 0 && g.open == 0 && g.sent > 0 {
		b.answered[g.id] = g.done
	}
}

// Flush frees the slots that were taken for requests not sent yet, and enters the responses that
// the log does not have yet. Without it their slots are occupied as if all had been sent and no
// response had come.
func (b *Budget) Flush(ctx context.Context) error {
	if err := b.beginCharging(ctx); err != nil {
		return err
	}
	defer func() { <-b.charging }()
	if err := b.giveBack(ctx, b.group, 0); err != nil {
		return err
	}
	b.mu.Lock()
	answered := maps.Clone(b.answered)
	b.mu.Unlock()
	if len(answered) == 0 {
		return nil
	}
	if err := b.log.Answered(ctx, answered); err != nil {
		return &logError{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range answered {
		delete(b.answered, id)
	}
	return nil
}
