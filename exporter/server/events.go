package server

import (
	"log/slog"
	"strings"
)

// httpEvents logs what net/http has to say. Clients that break off or speak
// another protocol are of no interest, unless the fault is ours.
type httpEvents struct {
	log *slog.Logger
	// check says what is wrong with the web configuration now.
	check func() error
}

// Write takes one message.
func (e httpEvents) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	switch {
	case strings.HasPrefix(text, "http: TLS handshake error"):
		if err := e.check(); err != nil {
			e.log.Error("no tls connection possible", "error", err)
			break
		}
		e.log.Debug("tls handshake broken off", "event", text)
	case strings.HasPrefix(text, "http2:"):
		e.log.Debug("http/2 connection broken off", "event", text)
	default:
		e.log.Warn("http server", "event", text)
	}
	return len(p), nil
}
