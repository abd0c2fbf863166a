package clock

// Signal wakes the loop that receives from it. It holds one wake-up: further ones before the
// loop receives it have no effect.
type Signal chan struct{}

// NewSignal returns a signal that was not sent yet.
func NewSignal() Signal { return make(Signal, 1) }

// Send wakes the loop. It never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// LastError is the newest result of a loop that logs an error once while it stays the same.
type LastError string

// IsNew stores err, and reports whether it is an error other than the one before.
func (l *LastError) IsNew(err error) bool {
	former := *l
	*l = ""
	if err != nil {
		*l = LastError(err.Error())
	}
	return *l != "" && *l != former
}
