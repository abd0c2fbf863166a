package faults

import (
	"errors"
	"sync"
)

// Fault is what goes wrong with one call that leaves a process.
type Fault string

// The faults of a call. A call that is NotSent has no effect, and its error says so.
const (
	None         Fault = ""
	NotSent      Fault = "not sent"
	RequestLost  Fault = "request lost"  // fails and has no effect
	ReplyLost    Fault = "reply lost"    // has its effect and fails
	KilledBefore Fault = "killed before" // the process dies before the call has its effect
	KilledAfter  Fault = "killed after"  // or after it
	KilledWithin Fault = "killed within" // or when it has a part of it: see DoInPart
)

// OfCalls are those that any call can have.
var OfCalls = []Fault{RequestLost, ReplyLost, KilledBefore, KilledAfter}

// Plan says what goes wrong with the nth call of a name, from 1; nil: nothing.
type Plan func(call string, nth int) Fault

// Nth is the plan of one fault.
func Nth(call string, nth int, f Fault) Plan {
	return func(c string, n int) Fault {
		if c == call && n == nth {
			return f
		}
		return None
	}
}

// ErrKilled is the error of each call of a process that is dead.
var ErrKilled = errors.New("killed")

// Process stands between the code under test and the world that outlives it. Once it is dead, nothing
// that it does has any effect.
type Process struct {
	plan *Plan  // of faults; may be changed between two calls
	dies func() // called once; nil: nothing is to be done

	mu    sync.Mutex
	calls map[string]int
	dead  bool
}

// NewProcess returns a process that lives.
func NewProcess(plan *Plan, dies func()) *Process {
	return &Process{plan: plan, dies: dies, calls: map[string]int{}}
}

// Err returns an error once the process is dead.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return ErrKilled
	}
	return nil
}

// Dead reports whether it was killed.
func (p *Process) Dead() bool { return p.Err() != nil }

// Calls returns how often each call was made.
func (p *Process) Calls() map[string]int { return p.calls }

// strike counts a call and returns what goes wrong with it.
func (p *Process) strike(call string) (Fault, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return None, ErrKilled
	}
	p.calls[call]++
	if *p.plan == nil {
		return None, nil
	}
	return (*p.plan)(call, p.calls[call]), nil
}

func (p *Process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead && p.dies != nil {
		p.dies()
	}
	p.dead = true
	return ErrKilled
}

// Restart is another process, with the same plan.
func (p *Process) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.dead = map[string]int{}, false
}

// Do makes a call. Lost is its error after NotSent, RequestLost and ReplyLost.
func (p *Process) Do(call string, lost func(Fault) error, effect func() error) error {
	return p.DoInPart(call, lost, effect, func() {})
}

// DoInPart is Do of a call that can have a part of its effect.
func (p *Process) DoInPart(call string, lost func(Fault) error, effect func() error, part func()) error {
	f, err := p.strike(call)
	switch {
	case err != nil:
		return err
	case f == NotSent, f == RequestLost:
		return lost(f)
	case f == KilledWithin:
		part()
		return p.kill()
	case f == KilledBefore:
		return p.kill()
	}
	err = effect()
	switch f {
	case ReplyLost:
		return lost(f)
	case KilledAfter:
		return p.kill()
	}
	return err
}

// Reach notes a step that has no effect outside: a fault there kills. It reports whether the process lived.
func (p *Process) Reach(step string) bool {
	f, err := p.strike(step)
	if err == nil && f != None {
		_ = p.kill()
	}
	return err == nil
}
