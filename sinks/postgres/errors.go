package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/docgauge/docgauge/sinks"
)

const (
	hintLogin = "the server refuses user or password: check both in the DSN, and pg_hba.conf or a pooler's auth_file"
	hintRight = "the user lacks a right: docs/postgres.md lists the grants, or let the owner of the schema run " +
		"`docgauge check` once to make the tables"
	hintNoSpace = "the server's disk is full: free space there; the next run writes the window again"
	hintTable   = "a table is not as docgauge made it: drop or rename the docgauge_ tables, then `docgauge load " +
		"--sink postgres`"
	hintReadOnly = "the server only reads: it is a standby, or default_transaction_read_only is set; name the " +
		"primary, or every server, in the DSN"
	hintParameter = "the server does not know a parameter of the DSN, or a pooler before it does not pass it on: " +
		"check those after ?"
	hintPool = "the pool before the server has no connection free: raise its size (default_pool_size of PgBouncer), or " +
		"lower pool_max_conns in the DSN"
	hintPrepared = "a pooler before the server does not keep prepared statements: remove default_query_exec_mode from " +
		"the DSN"
	hintStatement = "the pooler before the server ends a transaction after each statement: set its pool_mode to transaction " +
		"or session"
	hintNoDatabase = "the database does not exist: CREATE DATABASE it, or name another one in the DSN"
	hintSilent     = "the server stands still: it does not even keep its own time-outs"
	hintBroken     = "the connection broke"
	hintOthers     = "a table of that name is there that docgauge did not make: drop or rename it, or name another " +
		"schema with ?search_path= in the DSN"
)

const undefinedTable = "42P01"

// hints explain the most common error codes.
var hints = map[string]string{
	"28P01": hintLogin, "28000": hintLogin,
	"3D000": hintNoDatabase,
	"42501": hintRight,
	"53100": hintNoSpace,
	"25006": hintReadOnly,
	"42704": hintParameter, "22023": hintParameter,
	"53300": "the server has no connection left: raise max_connections, or lower pool_max_conns in the DSN",
	"42P05": hintPrepared, "26000": hintPrepared,
	"57014": "a statement was cancelled: if it takes longer than statement_timeout, set a longer one in the DSN",
	"55P03": "another session holds a lock for longer than lock_timeout: see pg_locks and pg_stat_activity",
	"42P07": hintOthers, "42710": hintOthers,
	undefinedTable: "a table is gone that was there at the start: drop docgauge_migrations, or for a report of another name " +
		"docgauge_NAME_migrations; then `docgauge load --sink postgres` makes and fills all of them",
	"42703": hintTable, "42804": hintTable, "42P10": hintTable, "42809": hintTable, "428C9": hintTable,
	"22P03": hintTable, "23502": hintTable, "23505": hintTable, "23514": hintTable, "0A000": hintTable,
}

// passing are the codes of errors after which the same may succeed a moment later: a
// connection that was ended or refused for now, a lock, a deadlock.
var passing = map[string]bool{
	"08000": true, "08003": true, "08006": true, "25P03": true, "40001": true, "40P01": true, "53300": true,
	"55P03": true,
	"57P01": true, "57P02": true, "57P03": true, "57P05": true,
}

// ofPoolers explain parts of messages of poolers, PgBouncer's, whose code is always a protocol error, and Supavisor's.
var ofPoolers = []struct{ message, hint string }{
	{"query_wait_timeout", hintPool}, {"no more connections allowed", hintPool}, {"max_client_conn", hintPool},
	{"axClients", hintPool}, {"max clients", hintPool}, {"authentication failed", hintLogin}, {"no such user", hintLogin},
	{"no such database", hintNoDatabase}, {`database "`, hintNoDatabase}, {"startup parameter", hintParameter},
	{"statement pooling mode", hintStatement},
}

// hintOf explains an answer of the server, or of a pooler before it.
func hintOf(e *pgconn.PgError) string {
	for _, known := range ofPoolers {
		if (hints[e.Code] == "" || known.hint == hintPool) && strings.Contains(e.Message, known.message) {
			return known.hint
		}
	}
	return hints[e.Code]
}

// isTransient reports whether the same window may be committed a moment later. A server
// that refuses the login is left to the next run.
func (s *Sink) isTransient(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return passing[e.Code] || hintOf(e) == hintPool
	}
	_, outside := errors.AsType[*pgconn.ConnectError](err)
	if outside && errors.Is(err, context.DeadlineExceeded) {
		return s.connected() // a pool has fewer connections than we would use: another of ours may be free then
	}
	return !outside && isBroken(err)
}

// isBroken reports whether the connection failed.
func isBroken(err error) bool {
	return !errors.Is(err, context.DeadlineExceeded) && (sinks.IsBroken(err) || errors.Is(err, pgconn.ErrConnClosed))
}

// errAltered is the error of a table that was changed by hand.
type errAltered struct{ table, how string }

func (e errAltered) Error() string { return e.table + " " + e.how }

// explain adds the place, the meaning and the remedy.
func (s *Sink) explain(err error) error {
	if err == nil {
		return nil
	}
	said, hint := err.Error(), ""
	answer, answered := errors.AsType[*pgconn.PgError](err)
	connect, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, altered := errors.AsType[errAltered](err)
	switch {
	case answered:
		said, hint = fmt.Sprintf("SQLSTATE %s: %s", answer.Code, answer.Message), hintOf(answer)
	case connecting:
		said, hint = ofConnect(connect.Unwrap())
	case altered:
		hint = hintTable
	case errors.Is(err, context.DeadlineExceeded):
		hint = hintSilent
	case isBroken(err):
		hint = hintBroken
	}
	if hint == "" && !answered {
		said = ""
	}
	return sinks.Explain("PostgreSQL at "+s.location, hint, said, err)
}

// ofConnect explains an error that is not an answer of PostgreSQL, and returns the last
// message: the driver tries each address, with TLS and without.
func ofConnect(err error) (said, hint string) {
	lines := strings.Split(err.Error(), "\n")
	said = lines[len(lines)-1]
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	network, isNetwork := errors.AsType[*net.OpError](err)
	_, unresolved := errors.AsType[*net.DNSError](err)
	switch {
	case untrusted || unknown:
		return said, "the server's certificate is not trusted, or is not for this host: name the file of its CA " +
			"with sslrootcert in the DSN"
	case strings.Contains(said, "refused TLS"):
		return said, "the server does not speak TLS: turn ssl on there, or choose another sslmode"
	case strings.Contains(said, "read only") || strings.Contains(said, "read-only"):
		return said, hintReadOnly
	case errors.Is(err, context.DeadlineExceeded):
		return said, "no answer in time: is it the address of a PostgreSQL server, does a firewall let it pass, and " +
			"has a pooler before it a connection free (pool_max_conns in the DSN is at most the size of its pool)"
	case isNetwork && network.Op == "dial" || unresolved:
		return said, "no server answers there: check host and port of the DSN, and whether the server runs"
	}
	return said, "what is there does not answer as PostgreSQL does: check host and port of the DSN"
}
