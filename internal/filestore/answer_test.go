package filestore

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// silent is a file whose reads do not return before closed is.
type silent struct{ closed chan struct{} }

func (s silent) ReadAt(p []byte, _ int64) (int, error) {
	<-s.closed
	return copy(p, "text"), nil
}

func (s silent) Size() int64 { return 4 }

func (s silent) Close() error { return nil }

// TestSilentFileSystem: a call that does not return ends with its context or after
// answerLimit; while it hangs others fail at once, and once it returned all is well.
func TestSilentFileSystem(t *testing.T) {
	stopped := errors.New("stopped")
	for name, call := range map[string]func(ctx context.Context, d *directory, f File) error{
		"open": func(ctx context.Context, d *directory, _ File) error { _, err := d.Open(ctx, "hangs"); return err },
		"fetch": func(ctx context.Context, d *directory, _ File) error {
			_, _, err := d.Fetch(ctx, "hangs", "")
			return err
		},
		"list": func(ctx context.Context, d *directory, _ File) error { return d.List(ctx, "", "", func(string) {}) },
		"read": func(_ context.Context, _ *directory, f File) error {
			buf := make([]byte, 4)
			n, err := f.ReadAt(buf, 0)
			if string(buf[:n]) != "text" && err == nil {
				err = errors.New("read " + string(buf[:n]))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := New(t.TempDir())
				check(t, err)
				d, closed := store.(*directory), make(chan struct{})
				d.readDir = func(string) ([]fs.DirEntry, error) { <-closed; return nil, nil }
				d.open = func(path string) (File, error) {
					if filepath.Base(path) == "hangs" {
						<-closed
					}
					return silent{closed}, nil
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				file, err := d.Open(ctx, "opens")
				check(t, err)
				start := time.Now()
				time.AfterFunc(time.Second, func() { cancel(stopped) })
				if err := call(ctx, d, file); !errors.Is(err, stopped) || time.Since(start) != time.Second {
					t.Errorf("stopped: %v after %v", err, time.Since(start))
				}
				file, err = d.Open(t.Context(), "opens")
				check(t, err)
				for _, want := range []time.Duration{answerLimit, 0} {
					start = time.Now()
					if err := call(t.Context(), d, file); !errors.Is(err, errSilent) || !Unavailable(err) ||
						time.Since(start) > want {
						t.Errorf("silent: %v after %v, want within %v", err, time.Since(start), want)
					}
				}
				close(closed)
				synctest.Wait()
				if name != "fetch" { // which has nothing to link
					check(t, call(t.Context(), d, file))
				}
			})
		})
	}
}
