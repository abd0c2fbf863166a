package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/sinks"
)

const (
	// connectTimeout bounds each connect, with TLS and login.
	connectTimeout = 10 * time.Second
	// connections bounds the connections to the server.
	connections = 4
	// writePatience is the time for which the server may accept nothing.
	writePatience = 2 * time.Minute
)

// limits are settings of each transaction, unless the DSN has others. The server ends what
// takes longer, and with it the transaction; so a client that was killed holds no lock
// for long.
var limits = map[string]string{
	"statement_timeout":                   "5min",
	"lock_timeout":                        "1min",
	"idle_in_transaction_session_timeout": "2min",
}

// searchPath is the setting that says which schema is ours.
const searchPath = "search_path"

const wantedDSN = "want postgres://user:password@host:5432/database, and ?sslmode=verify-full where the network is " +
	"not trusted"

// maxName is PostgreSQL's limit on the characters of a name.
const maxName = 63

var (
	schemeForm   = regexp.MustCompile(`^postgres(ql)?://`)
	databaseForm = regexp.MustCompile(`^[\pL\pN_$. -]+$`) // {1,63} would take 3 ms and 2 MB of every start
)

// parse reads a DSN, and returns the place that it names. Errors do not show a part of
// it that may be a secret in the wrong place. local are the settings of each transaction.
func parse(dsn string) (config *pgxpool.Config, local map[string]string, place string, err error) {
	if !schemeForm.MatchString(dsn) {
		return nil, nil, "", errors.New(wantedDSN)
	}
	_, rest, _ := strings.Cut(dsn, "://")
	host, parameters, err := sinks.CheckDSN(rest)
	if err != nil {
		return nil, nil, "", err
	}
	if strings.Count(rest, "@") > 1 {
		return nil, nil, "", errors.New("write special characters of user and password as %40 for @, %3A for :, %2F for /")
	}
	if host == "" && !parameters.Has("host") && !parameters.Has("service") {
		return nil, nil, "", errors.New("a host is missing: " + wantedDSN)
	}
	config, err = pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, nil, "", withoutValues(err, parameters)
	}
	if name := config.ConnConfig.Database; !databaseForm.MatchString(name) || utf8.RuneCountInString(name) > maxName {
		return nil, nil, "", errors.New("the database, which follows host and slash, is missing or has special " +
			"characters: " +
			wantedDSN)
	}
	place = location(config.ConnConfig.Config)
	return config, fill(config, parameters), place, nil
}

// withoutValues names the error without the driver's words, which may quote a value:
// it looks for the parameter that is refused.
func withoutValues(err error, parameters url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		alone := "postgres://h/d?" + url.Values{name: parameters[name]}.Encode()
		if _, err := pgxpool.ParseConfig(strings.ReplaceAll(alone, "+", "%20")); err != nil {
			why := "wrong value"
			if file, ok := errors.AsType[*fs.PathError](err); ok {
				why = file.Err.Error()
			}
			return fmt.Errorf("the parameter %.40s: %s", name, why)
		}
	}
	if strings.Contains(err.Error(), "failed to configure TLS") {
		return errors.New("the parameters sslmode, sslrootcert, sslcert and sslkey, or PGSSL… in the environment, " +
			"do not fit together, or a file is not a certificate")
	}
	return errors.New("not a URL: is the port a number, and are special characters of user and password written as " +
		"%40 for @, %2F for /? " + wantedDSN)
}

// fill sets what the DSN leaves open, and returns the settings of each transaction. Poolers refuse them as
// parameters of a connection, and keep no others from one transaction to the next; nor do they keep prepared
// statements. So by default the driver prepares none: to describe one first, outside the transaction, would wait
// for locks without a limit.
func fill(config *pgxpool.Config, parameters url.Values) (local map[string]string) {
	if !parameters.Has("default_query_exec_mode") {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if !parameters.Has("pool_max_conns") {
		config.MaxConns = connections
	}
	c := &config.ConnConfig.Config
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	local = map[string]string{}
	for name, value := range limits {
		if !strings.Contains(c.RuntimeParams["options"], name) {
			local[name] = value
		}
	}
	for name, value := range c.RuntimeParams {
		if _, isLimit := limits[name]; isLimit || name == searchPath {
			local[name] = value
			delete(c.RuntimeParams, name)
		}
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "docgauge"
	}
	c.RuntimeParams["client_encoding"] = "UTF8"
	if !parameters.Has("target_session_attrs") && os.Getenv("PGTARGETSESSIONATTRS") == "" {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return boundedConn{conn}, nil
	}
	return local
}

// boundedConn ends a write that stands still: the driver would wait for it as long as
// for the whole statement.
type boundedConn struct{ net.Conn }

func (c boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// location names servers and database, and the schema if it is not the user's.
func location(c pgconn.Config) string {
	var servers []string
	add := func(host string, port uint16) {
		server := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if network, path := pgconn.NetworkAddress(host, port); network == "unix" {
			server = path
		}
		if !slices.Contains(servers, server) { // the driver tries each with TLS and without
			servers = append(servers, server)
		}
	}
	add(c.Host, c.Port)
	for _, other := range c.Fallbacks {
		add(other.Host, other.Port)
	}
	place := strings.Join(servers, ",") + "/" + c.Database
	if path := c.RuntimeParams[searchPath]; path != "" {
		place += " (search_path " + path + ")"
	}
	return place
}
