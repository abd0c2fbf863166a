package clickhouse

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
)

// errConnect is the error of a connection that never came to a first answer.
// Mostly the DSN is wrong.
type errConnect struct{ err error }

func (e errConnect) Error() string { return e.err.Error() }
func (e errConnect) Unwrap() error { return e.err }

const (
	httpPort   = "HTTP (8123, or 8443 with TLS)"
	nativePort = "the native protocol (9000, or 9440 with TLS)"

	tooOldForHTTP = "over HTTP the server must be 22.3 or newer: for older ones use clickhouse://host:9000"
	noClickHouse  = "what answers there is not ClickHouse: is it the port of "
	noTLS         = "the port does not speak TLS: name the port with TLS (native 9440, HTTP 8443), or go without: clickhouse:// without ?secure=true, http://"
	noTrust       = "the server's certificate is not trusted: add its CA to the system's, or name the CA's file in SSL_CERT_FILE; does the host of the DSN stand in the certificate?"
	hangsUp       = "the server hangs up at the login: it may want TLS (?secure=true), the user may have no right to the database, or it is not the port of "
	mute          = "no answer in time: is it the port of "
)

// unknownSetting is what a server without the settings of HTTP answers, in a
// form that the driver does not read.
var unknownSetting = regexp.MustCompile(`Code: 115\b`)

// meaningOfConnect explains an error that is no answer of the server.
func (s *Sink) meaningOfConnect(err error) error {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	redirect, redirects := errors.AsType[errRedirect](err)
	network, isNetwork := errors.AsType[net.Error](err)
	answered, isAnswer := errors.AsType[*clickhouse.HTTPError](err)
	said := withoutURL(err).Error()
	switch {
	case redirects:
		return redirect
	case untrusted:
		return explained{noTrust, said, err}
	case plain, strings.Contains(said, "server gave HTTP response to HTTPS client"):
		return explained{noTLS, said, err}
	case unreachable(err):
		return s.noServer(err)
	case isAnswer && unknownSetting.MatchString(said):
		return explained{tooOldForHTTP, said, err}
	case isAnswer:
		return explained{noClickHouse + s.port() + "?", "HTTP " + strconv.Itoa(answered.StatusCode), err}
	case isNetwork && network.Timeout(), errors.Is(err, clickhouse.ErrAcquireConnTimeout):
		return explained{mute + s.port() + "?", said, err}
	case strings.Contains(said, "[handshake] unexpected packet"), strings.Contains(said, "server hello"):
		return explained{noClickHouse + s.port() + "?", said, err}
	case errors.Is(err, io.EOF), broken(err):
		return explained{hangsUp + s.port(), said, err}
	}
	return err
}

func (s *Sink) noServer(err error) error {
	return explained{"no server answers there: is it running, and is it the port of " + s.port() + "?", withoutURL(err).Error(), err}
}

// port says which port the DSN should name.
func (s *Sink) port() string {
	if s.options.Protocol == clickhouse.HTTP {
		return httpPort
	}
	return nativePort
}

// withoutURL drops what the HTTP client and the driver put before the cause:
// the URL and the user in it.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	if a, ok := errors.AsType[*clickhouse.HTTPError](err); ok {
		return a
	}
	return err
}
