package remotewrite

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/exp/api/remote"

	"github.com/docgauge/docgauge/exporter"
)

// batchSamples is how many samples a request carries: Prometheus' own senders carry
// as many, so every receiver takes them.
const batchSamples = 2000

// Summary counts the samples by their result. Its JSON keys are stable.
type Summary struct {
	Accepted int64 `json:"samples_accepted"`
	// Refused are those that the receiver called too old or out of order.
	Refused  int64 `json:"samples_refused"`
	Requests int   `json:"requests"`
	// Retries are the requests that were sent again.
	Retries int `json:"retries"`
	// Through is the time of the newest sample that was accepted or refused, as were all before
	// it; nil before the first.
	Through *time.Time `json:"through"`
	// RefusedThrough is the time of the newest sample that was refused, nil for none, and Refusal the
	// answer of the receiver.
	RefusedThrough *time.Time `json:"refused_through"`
	Refusal        string     `json:"-"`
}

// Writer sends samples. It is for one goroutine.
type Writer struct {
	host     string
	api      *remote.API
	message  remote.WriteMessageType
	answers  *answers
	retrying func(error)
	summary  Summary
	batch    *batch
	// refusing is true if the newest sample that was accepted or refused was refused.
	refusing bool
	// lastRefused is the last of several batches that were refused one after the other.
	lastRefused *batch
}

// Summary returns the counts so far.
func (w *Writer) Summary() Summary { return w.summary }

// Add sends the sample with others, at once or later. Samples are added in order of
// time; samples of different series may be up to an hour out of order.
func (w *Writer) Add(ctx context.Context, s exporter.Sample) error {
	w.batch.add(s)
	if w.batch.samples < batchSamples {
		return nil
	}
	return w.flush(ctx)
}

// Close sends the remaining samples.
func (w *Writer) Close(ctx context.Context) error {
	if w.batch.samples > 0 {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if w.lastRefused == nil {
		return nil
	}
	return w.split(ctx, w.lastRefused)
}

// flush sends the batch. A receiver may refuse all of it because of one sample, so a refused
// batch is split. Of batches that are refused one after the other only the last is split,
// where the refusals end; otherwise a history that is altogether too old would cost
// thousands of requests. That they ended shows only after newer samples were accepted, so a
// receiver that takes nothing out of order also refuses the rest of that batch, which is counted.
func (w *Writer) flush(ctx context.Context) error {
	b := w.batch
	w.batch = newBatch()
	refusal, err := w.send(ctx, b)
	switch {
	case err != nil:
		return err
	case refusal != "" && !w.refusing:
		return w.split(ctx, b)
	case refusal != "":
		if w.lastRefused != nil {
			w.refuse(w.lastRefused)
		}
		w.lastRefused, w.summary.Refusal = b, refusal
		return nil
	}
	if refused := w.lastRefused; refused != nil {
		w.lastRefused = nil
		if err := w.split(ctx, refused); err != nil {
			return err
		}
	}
	w.accept(b)
	return nil
}

// split sends the halves of a refused batch, the older first, and theirs, down to the
// samples of one time.
func (w *Writer) split(ctx context.Context, b *batch) error {
	older, newer := b.halves()
	if older.samples == 0 {
		w.refuse(b)
		return nil
	}
	for _, half := range []*batch{older, newer} {
		refusal, err := w.send(ctx, half)
		switch {
		case err != nil:
			return err
		case refusal == "":
			w.accept(half)
		default:
			w.summary.Refusal = refusal
			if err := w.split(ctx, half); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) accept(b *batch) {
	w.refusing = false
	w.summary.Accepted += int64(b.samples)
	w.reach(b)
}

func (w *Writer) refuse(b *batch) {
	w.refusing = true
	w.summary.Refused += int64(b.samples)
	newest := w.reach(b)
	w.summary.RefusedThrough = &newest
}

// reach notes the time of the newest sample and returns it.
func (w *Writer) reach(b *batch) time.Time {
	times := b.times()
	newest := time.UnixMilli(times[len(times)-1]).UTC()
	if w.summary.Through == nil || newest.After(*w.summary.Through) {
		w.summary.Through = &newest
	}
	return newest
}

// old matches the answers of receivers to samples that are too old or out of order. Only the
// words distinguish them from other bad requests.
var old = regexp.MustCompile(`(?i)out[ -]of[ -](order|bounds)|too[ -]old|duplicate[ -](sample|timestamp)`)

// send sends a batch, with retries. refusal is the answer if samples are too old; any other
// failure is an error.
func (w *Writer) send(ctx context.Context, b *batch) (refusal string, err error) {
	var message any = b.v2()
	if w.message == remote.WriteV1MessageType {
		message = b.v1()
	}
	// The library tries again whatever happened to a connection; what cannot change
	// ends this context.
	one, stop := context.WithCancel(ctx)
	defer stop()
	w.answers.stop, w.answers.last = stop, answer{}
	w.summary.Requests++
	_, err = w.api.Write(one, w.message, message, remote.WithWriteRetryCallback(func(err error) {
		w.summary.Requests, w.summary.Retries = w.summary.Requests+1, w.summary.Retries+1
		if w.retrying != nil {
			w.retrying(w.explain(err))
		}
	}))
	last := w.answers.last
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case last.status == http.StatusConflict, last.status == http.StatusBadRequest && old.MatchString(last.text):
		return last.text, nil
	}
	return "", w.explain(err)
}

// explain returns the error of the last attempt, with a remedy.
func (w *Writer) explain(err error) error {
	last := w.answers.last
	if last.status == 0 {
		return fmt.Errorf("remote write to %s: %w: is it running and reachable?", w.host, plain(cmp.Or(last.err, err)))
	}
	said := last.text
	if said != "" {
		said += ": "
	}
	if last.status/100 == 2 {
		return fmt.Errorf("remote write to %s: HTTP %d, but nothing was written: it does not receive protocol 2.0; "+
			"use 1.0", w.host, last.status)
	}
	return fmt.Errorf("remote write to %s: HTTP %d %s: %s%s", w.host, last.status, http.StatusText(last.status), said,
		remedy(last.status))
}

func remedy(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "it must accept the credentials; write them into the file of --remote-write.config.file"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return "the URL must lead to a receiver; Prometheus is one with --web.enable-remote-write-receiver, at " +
			"/api/v1/write"
	case status == http.StatusUnsupportedMediaType:
		return "it does not receive this protocol; try the other with --remote-write.protocol"
	case status/100 == 3:
		return "redirects are not followed; name the final address"
	case status == http.StatusTooManyRequests || status/100 == 5:
		return "it is overloaded or fails; see its log"
	}
	return "it must accept the samples; see its log"
}
