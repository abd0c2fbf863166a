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

// settings are those of a connection, unless the DSN has others. The server ends what
// takes longer, and with it the transaction; so a client that was killed holds no lock
// for long.
var settings = map[string]string{
	"application_name":                    "docgauge",
	"statement_timeout":                   "5min",
	"lock_timeout":                        "1min",
	"idle_in_transaction_session_timeout": "2min",
}

const wantedDSN = "want postgres://user:password@host:5432/database, and ?sslmode=verify-full where the network is " +
	"not trusted"

// maxName is PostgreSQL's limit on the characters of a name.
const maxName = 63

var (
	schemeForm   = regexp.MustCompile(`^postgres(ql)?://`)
	databaseForm = regexp.MustCompile(`^[\pL\pN_$. -]+$`) // {1,63} would take 3 ms and 2 MB of every start
)

// parse reads a DSN, and returns the place that it names. Errors do not show a part of
// it that may be a secret in the wrong place.
func parse(dsn string) (config *pgxpool.Config, place string, err error) {
	if !schemeForm.MatchString(dsn) {
		return nil, "", errors.New(wantedDSN)
	}
	_, rest, _ := strings.Cut(dsn, "://")
	host, parameters, err := sinks.CheckDSN(rest)
	if err != nil {
		return nil, "", err
	}
	if strings.Count(rest, "@") > 1 {
		return nil, "", errors.New("write special characters of user and password as %40 for @, %3A for :, %2F for /")
	}
	if host == "" && !parameters.Has("host") && !parameters.Has("service") {
		return nil, "", errors.New("a host is missing: " + wantedDSN)
	}
	config, err = pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, "", withoutValues(err, parameters)
	}
	if name := config.ConnConfig.Database; !databaseForm.MatchString(name) || utf8.RuneCountInString(name) > maxName {
		return nil, "", errors.New("the database, which follows host and slash, is missing or has special " +
			"characters: " +
			wantedDSN)
	}
	fill(config, parameters)
	return config, location(config.ConnConfig.Config), nil
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

// fill sets what the DSN leaves open.
func fill(config *pgxpool.Config, parameters url.Values) {
	if !parameters.Has("pool_max_conns") {
		config.MaxConns = connections
	}
	c := &config.ConnConfig.Config
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	for name, value := range settings {
		if _, set := c.RuntimeParams[name]; !set && !strings.Contains(c.RuntimeParams["options"], name) {
			c.RuntimeParams[name] = value
		}
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

// location names servers and database, and the schema if it is not that of the user.
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
	if path := c.RuntimeParams["search_path"]; path != "" {
		place += " (search_path " + path + ")"
	}
	return place
}
