package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"

	"github.com/docgauge/docgauge/internal/secretfile"
)

func checkWebConfig(file string) error {
	// The toolkit itself would read any kind of file, of any length.
	if file != "" {
		if _, err := secretfile.Read(file); err != nil {
			return ConfigError(fmt.Sprintf("DOCGAUGE_WEB_CONFIG_FILE: %v", err))
		}
	}
	if err := web.Validate(file); err != nil {
		return ConfigError(fmt.Sprintf("DOCGAUGE_WEB_CONFIG_FILE %s: %s: "+
			"want a web configuration of exporter-toolkit, with paths relative to its folder", file, explain(err)))
	}
	return nil
}

// explain describes an error in a web configuration on one line, without its values,
// which can be passwords.
func explain(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if strings.Contains(text, "bcrypt") {
		return "basic_auth_users: a password is not a bcrypt hash (htpasswd -nB USER makes one)"
	}
	return redact(text)
}

// quoted is how the YAML decoder quotes a value; a value may contain the quote.
var quoted = regexp.MustCompile("`[^\n]*`")

func redact(text string) string { return quoted.ReplaceAllString(text, "[redacted]") }

// secure wraps the handler with the web configuration, and both with our headers, so
// that a refusal carries them too. The toolkit configures a server only while it
// serves, so it gets a listener that ends at once.
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

// UsesTLS reports whether a web configuration that [Check] accepts has TLS.
func UsesTLS(file string) (bool, error) {
	s := &Server{log: slog.New(slog.DiscardHandler), http: &http.Server{}} //nolint:gosec // it serves nothing
	err := s.secure(file)
	return s.tls, err
}

// Credentials returns a function that reports whether a request that we answer is authenticated: by a
// verified client certificate, or as a user of the web configuration. As the toolkit does, it reads
// the file again for each request, and a file that cannot be read proves nothing.
func Credentials(file string) (func(*http.Request) bool, error) {
	s := &Server{log: slog.New(slog.DiscardHandler), http: &http.Server{ //nolint:gosec // it serves nothing
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
	if err := s.secure(file); err != nil {
		return nil, err
	}
	return func(r *http.Request) bool {
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			return true
		}
		if _, _, named := r.BasicAuth(); !named || file == "" {
			return false
		}
		// Who comes without a name is refused only where the file has users.
		var w answerCode
		s.http.Handler.ServeHTTP(&w, &http.Request{Method: http.MethodGet, Header: http.Header{}})
		return w == http.StatusUnauthorized
	}, nil
}

// answerCode records the status of an answer and discards the rest.
type answerCode int

func (c *answerCode) Header() http.Header         { return http.Header{} }
func (c *answerCode) Write(p []byte) (int, error) { return len(p), nil }
func (c *answerCode) WriteHeader(code int)        { *c = answerCode(code) }

// HasUsers reports whether a web configuration that [Check] accepts has basic_auth_users.
func HasUsers(file string) (bool, error) {
	proves, err := Credentials(file)
	if err != nil {
		return false, err
	}
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth("", "")
	return proves(r), nil
}

var errEnded = errors.New("no connection")

// ended is a listener without any connection.
type ended struct{}

func (ended) Accept() (net.Conn, error) { return nil, errEnded }
func (ended) Close() error              { return nil }
func (ended) Addr() net.Addr            { return &net.TCPAddr{} }

// toolkitLog passes on the toolkit's warnings, without values from its file.
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
