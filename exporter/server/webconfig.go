package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"

	"github.com/docgauge/docgauge/internal/secretfile"
)

func checkWebConfig(file string) error {
	// The toolkit reads the file itself, whatever it is and however long.
	if file != "" {
		if err := secretfile.Check(file); err != nil {
			return ConfigError(fmt.Sprintf("DOCGAUGE_WEB_CONFIG_FILE: %v", err))
		}
	}
	if err := web.Validate(file); err != nil {
		return ConfigError(fmt.Sprintf("DOCGAUGE_WEB_CONFIG_FILE %s: %s: want a web configuration of exporter-toolkit, with paths relative to its own folder", file, explain(err)))
	}
	return nil
}

// explain says what is wrong with a web configuration on one line, without the
// values that it holds: they can be passwords.
func explain(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if strings.Contains(text, "bcrypt") {
		return "basic_auth_users: a password is not a bcrypt hash (htpasswd -nB USER makes one)"
	}
	return redact(text)
}

// quoted is how the YAML decoder cites a value; a value may hold the mark.
var quoted = regexp.MustCompile("`[^\n]*`")

func redact(text string) string { return quoted.ReplaceAllString(text, "[redacted]") }

// secure puts the web configuration around the handler, and our headers around
// both, so that a refusal carries them too. The toolkit sets a server up only
// while it serves; it is given a listener that ends at once.
func (s *Server) secure(file string) error {
	none, address := false, []string{""}
	flags := &web.FlagConfig{WebListenAddresses: &address, WebSystemdSocket: &none, WebConfigFile: &file}
	err := web.Serve(ended{}, s.http, flags, slog.New(toolkitLog{s.log.Handler()}))
	if !errors.Is(err, errEnded) {
		return ConfigError(fmt.Sprintf("DOCGAUGE_WEB_CONFIG_FILE %s: %s", file, explain(err)))
	}
	// Serving without TLS leaves a configuration too, one without the toolkit's reload.
	s.tls = s.http.TLSConfig != nil && s.http.TLSConfig.GetConfigForClient != nil
	s.http.Handler = headers(s.http.Handler)
	return nil
}

var errEnded = errors.New("no connection")

// ended is a listener without any connection.
type ended struct{}

func (ended) Accept() (net.Conn, error) { return nil, errEnded }
func (ended) Close() error              { return nil }
func (ended) Addr() net.Addr            { return &net.TCPAddr{} }

// toolkitLog passes on what the toolkit warns of, without values of its file.
type toolkitLog struct{ slog.Handler }

func (h toolkitLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h toolkitLog) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, strings.ToLower(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(slog.String(a.Key, redact(a.Value.String())))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}
