package export

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// The names of the calls that can fail. Steps of Observe have their own.
const (
	callAsk       = "ask for page"
	callRecord    = "record"
	callReplace   = "replace"
	callCommitted = "committed in ledger"
	callForget    = "forget"
	callOpen      = "set open"
	callCount     = "count"
)

// power stands between one process and the world. When the process is killed, the spool is
// copied in its present state, and nothing that the process does later affects the world.
type power struct {
	*world
	*faults.Process
}

func newPower(w *world) *power {
	return &power{w, faults.NewProcess(&w.faults, func() {
		left, err := os.MkdirTemp(w.root, "left-")
		if err == nil {
			err = copyTree(left, w.dir)
		}
		if err != nil {
			panic(err) // a fault of the test, in a goroutine that cannot end it
		}
		w.dir = left
	})}
}

// do is one call.
func (p *power) do(call string, effect func() error) error {
	return p.Do(call, func(faults.Fault) error { return outageError() }, effect)
}

// copyTree copies what is there while others may still remove from it.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			var rel string
			if rel, err = filepath.Rel(from, path); err == nil {
				err = copyEntry(filepath.Join(to, rel), path, d.IsDir())
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func copyEntry(to, from string, dir bool) error {
	if dir {
		return os.MkdirAll(to, 0o700)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (p *power) observe(ev Event) {
	if p.Reach(ev.Step) && p.told != nil {
		p.told(ev)
	}
}

// wire is the service and the ledger behind a power. Methods that it does not
// have cannot fail.
type wire struct {
	windowLedger
	p *power
}

func (w wire) Page(ctx context.Context, q docsapi.PageQuery) (page analytics.Page, err error) {
	err = w.p.do(callAsk, func() (err error) {
		page, err = w.p.api().Page(ctx, q)
		return err
	})
	return page, err
}

func (w *world) api() pageReader {
	if w.source != nil {
		return w.source
	}
	return w.service
}

// local makes the fault look like a fault of our own state.
func local(err error) error {
	if err == nil {
		return nil
	}
	return errors.New("state: " + err.Error())
}

func (w wire) Record(ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string,
	top ...state.TopRows,
) error {
	return local(w.p.do(callRecord, func() error { return w.windowLedger.Record(ctx, rev, prov, sinks, top...) }))
}

func (w wire) Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error {
	return local(w.p.do(callCommitted, func() error { return w.windowLedger.Committed(ctx, rev, sink, at) }))
}

func (w wire) Forget(ctx context.Context, rev analytics.Revision) error {
	return local(w.p.do(callForget, func() error { return w.windowLedger.Forget(ctx, rev) }))
}

func (w wire) SetOpen(ctx context.Context, open analytics.OpenWindow) error {
	return local(w.p.do(callOpen, func() error { return w.windowLedger.SetOpen(ctx, open) }))
}

func (w wire) Count(ctx context.Context, name string, n int64, labels ...string) error {
	return local(w.p.do(callCount, func() error { return w.windowLedger.Count(ctx, name, n, labels...) }))
}

// wiredSink is a sink behind a power.
type wiredSink struct {
	sinks.Sink
	p *power
}

func (s wiredSink) Replace(ctx context.Context, w sinks.Sealed) error {
	return s.p.do(callReplace, func() error { return s.Sink.Replace(ctx, w) })
}
