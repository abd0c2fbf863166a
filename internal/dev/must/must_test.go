package must

import (
	"errors"
	"io"
	"testing"
)

func TestCatch(t *testing.T) {
	run := func(first, second error) (n int, err error) {
		defer Catch(&err)
		defer func() { err = second }()
		return Get(1, first), nil
	}
	if n, err := run(nil, nil); n != 1 || err != nil {
		t.Errorf("without an error: %d, %v", n, err)
	}
	if n, err := run(io.EOF, io.ErrNoProgress); n != 0 || !errors.Is(err, io.EOF) || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("with two errors: %d, %v", n, err)
	}
	defer func() {
		if p := recover(); p != "other" {
			t.Errorf("another panic became %v", p)
		}
	}()
	defer Catch(new(error))
	panic("other")
}
