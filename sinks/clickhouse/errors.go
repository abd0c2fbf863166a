package clickhouse

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docgauge/docgauge/sinks"
)

const (
	hintLogin = "the server refuses user or password: check both in the DSN"
	hintRight = "the user lacks a right: the documentation lists the grants, or let an administrator run " +
		"`docgauge check` once to make the tables"
	hintNoSpace = "the server's disk is full: free space there; the next run writes the window again"
	hintTable   = "a table is not as docgauge made it: drop or rename the docgauge_ tables and views, then " +
		"`docgauge load --sink clickhouse`"
	hintReplicas = "a replica does not answer: every replica of the shard must confirm an insert; start it, or take " +
		"it out of the cluster"
	hintBehind = "the insert before still waits for a replica that is down or behind, or another process writes " +
		"at the same time: see system.replicas and is_active in ZooKeeper"
	hintAbsent = "a server of the cluster is not there: every server must be up to make the tables or to delete; " +
		"start it, it then catches up by itself"
	hintBroken = "the connection broke"

	keeper = "the server has no connection to its ZooKeeper or Keeper"
)

// hints explain the most common error codes, which ErrorCodes.cpp of ClickHouse lists.
var hints = map[int32]string{
	81:  "the database does not exist: CREATE DATABASE it, or name another one in the DSN",
	195: "the user may not log in from this address: see <networks> in users.xml, or HOST of CREATE USER",
	192: hintLogin, 193: hintLogin, 516: hintLogin,
	291: hintRight, 497: hintRight, 392: hintRight,
	164: "the user may only read: give it a profile without readonly, and the right to insert",
	243: hintNoSpace,
	115: "the server does not know a setting: check the parameters of the DSN",
	16:  hintTable, 47: hintTable,
	60: "a table is gone that was there at the start: drop docgauge_migrations, or for a report of another name " +
		"docgauge_NAME_migrations; then `docgauge load --sink " +
		"clickhouse` makes and fills all of them",
	279: hintReplicas, 285: hintReplicas, 289: hintReplicas, 319: hintReplicas,
	225: keeper, 242: keeper, 999: keeper,
	unsatisfiedQuorum: hintBehind,
}

const (
	timeoutExceeded   = 159
	unsatisfiedQuorum = 286
	// memoryLimitExceeded and tooManyParts depend on the size of an insert.
	memoryLimitExceeded = 241
	tooManyParts        = 252
)

// passing are the codes of errors after which the same may succeed a moment later.
var passing = map[int32]bool{
	timeoutExceeded: true, unsatisfiedQuorum: true,
	202: true, 209: true, 210: true, 225: true, memoryLimitExceeded: true, 242: true, tooManyParts: true, 279: true,
	285: true, 289: true, 319: true, 999: true,
}

// passingStatus are the statuses of answers that proxies give while they cannot ask the server.
var passingStatus = map[int]bool{
	http.StatusTooManyRequests: true, http.StatusBadGateway: true, http.StatusServiceUnavailable: true,
	http.StatusGatewayTimeout: true,
}

// isTransient reports whether the same window may be committed a moment later. A
// server that refuses the login is left to the next run.
func isTransient(err error) bool {
	_, outside := errors.AsType[errConnect](err)
	_, absent := errors.AsType[errAbsent](err)
	if outside || absent || isUnreachable(err) {
		return false
	}
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return passing[e.Code]
	}
	if a, ok := errors.AsType[*clickhouse.HTTPError](err); ok {
		return passingStatus[a.StatusCode]
	}
	_, short := errors.AsType[errShort](err)
	return short || errors.Is(err, errOvertaken) || sinks.IsBroken(err)
}

// isRefused reports whether the server refused an insert, and may take a
// smaller insert, or one without another window.
func isRefused(err error) bool {
	if _, outside := errors.AsType[errConnect](err); outside {
		return false
	}
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return !passing[e.Code] || e.Code == memoryLimitExceeded || e.Code == tooManyParts
	}
	_, answered := errors.AsType[*clickhouse.HTTPError](err)
	return answered
}

func isUnreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// errConnect is the error of a connection that never got a first answer. Mostly the
// DSN is wrong.
type errConnect struct{ error }

func (e errConnect) Unwrap() error { return e.error }

// errAbsent is the error of a statement that not every server of the cluster has
// carried out in time. Each does when it comes back.
type errAbsent struct{ error }

func (e errAbsent) Unwrap() error { return e.error }

// explain adds the place, the meaning and the remedy.
func (s *Sink) explain(err error) error {
	if err == nil {
		return nil
	}
	said, hint := withoutURL(err), ""
	exception, answered := errors.AsType[*clickhouse.Exception](err)
	_, absent := errors.AsType[errAbsent](err)
	connect, connecting := errors.AsType[errConnect](err)
	proxy, proxied := errors.AsType[*clickhouse.HTTPError](err)
	switch {
	case absent:
		hint = hintAbsent
	case answered:
		said, hint = fmt.Sprintf("code %d: %s", exception.Code, exception.Message), hints[exception.Code]
		if strings.Contains(exception.Message, "No space left on device") { // some versions say it only in words
			hint = hintNoSpace
		}
	case proxied && passingStatus[proxy.StatusCode]:
		hint = "a proxy before the server cannot ask it: is the server running?"
	case proxied && proxy.StatusCode == http.StatusRequestEntityTooLarge:
		hint = "a proxy before the server limits the size of requests: raise it (client_max_body_size of nginx)"
	case connecting:
		hint = s.hintOfConnect(connect.error)
	case proxied:
		hint = "a proxy before the server refuses the request"
	case isUnreachable(err):
		hint = s.hintOfNoServer()
	case sinks.IsBroken(err):
		hint = hintBroken
	}
	if hint == "" {
		said = ""
	}
	return sinks.Explain("ClickHouse at "+s.Location(), hint, said, err)
}

// unknownSetting matches the answer of a server that lacks the settings of HTTP. The driver
// does not parse this form.
var unknownSetting = regexp.MustCompile(`Code: 115\b`)

// hintOfConnect says what an error means that is not an answer of ClickHouse.
func (s *Sink) hintOfConnect(err error) string {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, redirects := errors.AsType[errRedirect](err)
	network, isNetwork := errors.AsType[net.Error](err)
	_, isAnswer := errors.AsType[*clickhouse.HTTPError](err)
	said := withoutURL(err)
	switch {
	case redirects:
		return "the server redirects to another address, which docgauge does not follow, since the password would " +
			"go along: name that address in the DSN"
	case untrusted:
		return "the server's certificate is not trusted: add its CA to the system's, or name the CA's file in " +
			"SSL_CERT_FILE; is the host of the DSN in the certificate?"
	case plain, strings.Contains(said, "server gave HTTP response to HTTPS client"):
		return "the port does not speak TLS: name the port with TLS (native 9440, HTTP 8443), or go without: " +
			"clickhouse:// without ?secure=true, http://"
	case isUnreachable(err):
		return s.hintOfNoServer()
	case isAnswer && unknownSetting.MatchString(said):
		return "over HTTP the server must be 22.3 or newer: for older ones use clickhouse://host:9000"
	case isNetwork && network.Timeout(), errors.Is(err, clickhouse.ErrAcquireConnTimeout):
		return "no answer in time: is it the port of " + s.port() + "?"
	case isAnswer, strings.Contains(said, "[handshake] unexpected packet"), strings.Contains(said, "server hello"):
		return "what answers there is not ClickHouse: is it the port of " + s.port() + "?"
	case sinks.IsBroken(err):
		return "the server hangs up at the login: it may want TLS (?secure=true), the user may have no right to the " +
			"database, or it is not the port of " + s.port()
	}
	return ""
}

func (s *Sink) hintOfNoServer() string {
	return "no server answers there: is it running, and is it the port of " + s.port() + "?"
}

// port says which port the DSN should name.
func (s *Sink) port() string {
	if s.options.Protocol == clickhouse.HTTP {
		return "HTTP (8123, or 8443 with TLS)"
	}
	return "the native protocol (9000, or 9440 with TLS)"
}

// withoutURL drops what the HTTP client and the driver put before the cause: the URL
// and the user in it. Of an answer that is not ClickHouse's it keeps the status.
func withoutURL(err error) string {
	if a, ok := errors.AsType[*clickhouse.HTTPError](err); ok {
		if !unknownSetting.MatchString(a.Error()) {
			return fmt.Sprintf("HTTP %d", a.StatusCode)
		}
		return a.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}
