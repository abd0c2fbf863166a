package render

import (
	"context"
	"io"
	"log/slog"
)

// Retries is a log handler for a terminal: a request that is tried again is one short line
// on To, everything else is left to Handler. Message is that of its record, which has the
// fields attempt, attempts and reason.
type Retries struct {
	slog.Handler
	To      io.Writer
	Message string
}

// Handle writes a record.
func (h Retries) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != h.Message {
		return h.Handler.Handle(ctx, r)
	}
	fields := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		fields[a.Key] = a.Value
		return true
	})
	text := NewText(h.To)
	text.Line(2, "%s, trying again (%d of %s)", fields["reason"], fields["attempt"].Int64()+1, fields["attempts"])
	return text.Err()
}

// WithAttrs keeps the short lines, which have no further fields.
func (h Retries) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Retries{h.Handler.WithAttrs(attrs), h.To, h.Message}
}
