package cli

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/exporter"
)

// noteTimeout bounds noting a run in the state, and handing the metrics over.
const noteTimeout = 40 * time.Second

func (r *runner) snapshots() *snapshots {
	return &snapshots{config: r.config, db: r.db, stores: r.stores, now: r.now, keyLabels: r.api.keyLabels}
}

// deliver hands the metrics to where a Prometheus gets those of a job that ends:
// the textfile and the Pushgateway. It does so after a failed run too, which the
// metrics tell, and after an interrupted one.
func (r *runner) deliver(ctx context.Context) error {
	if r.Textfile == "" && r.PushgatewayURL == "" {
		return nil
	}
	ctx, cancel := outliving(ctx)
	defer cancel()
	snapshot, err := r.snapshots().read(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if r.Textfile != "" {
		errs = append(errs, exporter.WriteTextfile(r.Textfile, snapshot))
	}
	if r.PushgatewayURL != "" {
		errs = append(errs, exporter.Push(ctx, string(r.PushgatewayURL), snapshot))
	}
	return errors.Join(errs...)
}

// outliving outlives the end of ctx, before it or during it, by a short time: a
// Pushgateway that keeps silent must not hold up a stop.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endTimeout, cancel) })
	return long, func() { stop(); cancel() }
}
