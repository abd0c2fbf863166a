package durable_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/docgauge/docgauge/internal/durable"
)

// TestGroup: items that arrive during a write are taken by one later write.
// A call returns only after a write that began after the call.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group durable.Group[int]
		var written [][]int
		errSecond := errors.New("second")
		release := make(chan struct{})
		write := func(items []int) error {
			written = append(written, slices.Clone(items)) // one write at a time
			<-release
			if len(written) == 2 {
				return errSecond
			}
			return nil
		}
		errs := make([]error, 6)
		var calls sync.WaitGroup
		call := func(i int) {
			calls.Go(func() { errs[i] = group.Do(i, write) })
			synctest.Wait()
		}
		call(0)
		for i := 1; i < 4; i++ {
			call(i)
		}
		release <- struct{}{} // the write of 0 is over
		synctest.Wait()
		call(4)
		call(5)
		close(release)
		calls.Wait()
		if want := [][]int{{0}, {1, 2, 3}, {4, 5}}; !slices.EqualFunc(written, want, slices.Equal) {
			t.Errorf("%v was written, want %v", written, want)
		}
		if want := []error{nil, errSecond, errSecond, errSecond, nil, nil}; !slices.Equal(errs, want) {
			t.Errorf("the calls returned %v, want %v", errs, want)
		}
	})
}
