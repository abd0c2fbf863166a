package history

import (
	"errors"
	"sync"
)

// failures collects the errors of several goroutines.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

func (f *failures) err() error { return errors.Join(f.errs...) }
