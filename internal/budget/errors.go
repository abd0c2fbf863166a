package budget

import (
	"errors"
	"fmt"
	"time"
)

// ErrExhausted is what every ExhaustedError is.
var ErrExhausted = errors.New("request budget used up")

// ExhaustedError says that no request may be sent before Until. Nothing was sent.
type ExhaustedError struct {
	Budget string
	Limit  int
	Until  time.Time
	// Throttled: the service said 429, rather than our own log being full.
	Throttled bool
}

func (e *ExhaustedError) Error() string {
	if e.Throttled {
		return fmt.Sprintf("%s budget: the service throttled us (429); next request at %s", e.Budget, e.Until.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s budget: %d requests an hour are used up; next request at %s", e.Budget, e.Limit, e.Until.UTC().Format(time.RFC3339))
}

// Unwrap makes errors.Is(err, ErrExhausted) true.
func (e *ExhaustedError) Unwrap() error { return ErrExhausted }

// RetryAt returns Until; the client finds it to know that retrying is useless.
func (e *ExhaustedError) RetryAt() time.Time { return e.Until }

// StoreError says that the request log could not be written, so that nothing
// was sent, or that what was sent may not be noted as answered.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "request log: " + e.Err.Error() }

// Unwrap returns the store's error.
func (e *StoreError) Unwrap() error { return e.Err }

// RetryAt returns the zero time: trying again is useless until someone mends it.
func (e *StoreError) RetryAt() time.Time { return time.Time{} }
