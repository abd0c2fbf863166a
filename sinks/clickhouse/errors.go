package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
)

// fault is what a code of the server means to whoever runs docgauge.
type fault struct {
	rule string
	// passes: the same may succeed a moment later.
	passes bool
}

const (
	wrongLogin = "the server refuses user or password: check those of the DSN"
	noRight    = "the user lacks a right: the documentation lists the grants, or let an administrator run `docgauge check` once to make the tables"
	readOnly   = "the user may only read: give it a profile without readonly, and the right to insert"
	noSpace    = "the server's disk is full: free space there; the window is written again by the next run"
	overloaded = "the server is overloaded"
	replicas   = "a replica does not answer: every replica of the shard must confirm an insert; start it, or take it out of the cluster"
	keeper     = "the server has no connection to its ZooKeeper or Keeper"
	absent     = "a server of the cluster is not there: every server must be up to make the tables or to delete; start it, it then catches up by itself"
	behind     = "the insert before still waits for a replica that is down or behind, or another process writes at the same time: see system.replicas and is_active in ZooKeeper"
	cut        = "the connection broke"
)

const unsatisfiedQuorum = 286

// faults by code; see ErrorCodes.cpp of ClickHouse.
var faults = map[int32]fault{
	81:  {rule: "the database does not exist: CREATE DATABASE it, or name another one in the DSN"},
	195: {rule: "the user may not log in from this address: see <networks> in users.xml, or HOST of CREATE USER"},
	192: {rule: wrongLogin}, 193: {rule: wrongLogin}, 194: {rule: wrongLogin}, 516: {rule: wrongLogin},
	291: {rule: noRight}, 497: {rule: noRight}, 392: {rule: noRight},
	164: {rule: readOnly},
	243: {rule: noSpace},
	115: {rule: "the server does not know a setting: check the parameters of the DSN"},
	170: {rule: "the cluster is not in the server's configuration (remote_servers)"},
	16:  {rule: "a table is not as docgauge made it: drop or rename the docgauge_ tables and views, then `docgauge load --sink clickhouse`"},
	60:  {rule: "a table is gone that was there at the start: drop docgauge_migrations, then `docgauge load --sink clickhouse` makes and fills all of them"},
	47:  {rule: "a table is not as docgauge made it: drop or rename the docgauge_ tables and views, then `docgauge load --sink clickhouse`"},
	202: {rule: overloaded, passes: true}, 241: {rule: "the server is out of memory", passes: true}, 252: {rule: "the table has too many parts: merges lag behind", passes: true},
	159: {rule: "the server took too long", passes: true}, 209: {rule: cut, passes: true}, 210: {rule: cut, passes: true}, 279: {rule: replicas, passes: true},
	225: {rule: keeper, passes: true}, 242: {rule: keeper, passes: true}, 999: {rule: keeper, passes: true},
	286: {rule: behind, passes: true},
	285: {rule: replicas, passes: true}, 289: {rule: replicas, passes: true}, 319: {rule: replicas, passes: true},
}

// transient reports whether the same window may be committed a moment later. A
// server that lets nobody in is left to the next run.
func transient(err error) bool {
	if _, outside := errors.AsType[errConnect](err); outside || unreachable(err) {
		return false
	}
	if _, missing := errors.AsType[errAbsent](err); missing {
		return false
	}
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return faults[e.Code].passes
	}
	_, short := errors.AsType[errShort](err)
	return short || errors.Is(err, errOvertaken) || broken(err)
}

// occupied reports whether another insert into the table is under way, on
// servers that wait for the replicas of one insert at a time.
func occupied(err error) bool {
	e, ok := errors.AsType[*clickhouse.Exception](err)
	return ok && e.Code == unsatisfiedQuorum
}

func unreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// broken reports whether the connection failed.
func broken(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// explain says where it happened, what it means and what to do about it.
func (s *Sink) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ClickHouse at %s: %w", s.Location(), s.meaning(err))
}

func (s *Sink) meaning(err error) error {
	if a, ok := errors.AsType[errAbsent](err); ok {
		return explained{absent, a.Error(), err}
	}
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return meaningOf(e, err)
	}
	if c, ok := errors.AsType[errConnect](err); ok {
		return s.meaningOfConnect(c.err)
	}
	switch {
	case unreachable(err):
		return s.noServer(err)
	case broken(err):
		return explained{cut, withoutURL(err).Error(), err}
	}
	return err
}

// meaningOf explains what the server answered.
func meaningOf(e *clickhouse.Exception, err error) error {
	rule := faults[e.Code].rule
	if strings.Contains(e.Message, "No space left on device") { // some versions say it only in words
		rule = noSpace
	}
	if rule == "" {
		return err
	}
	return explained{rule, fmt.Sprintf("code %d: %s", e.Code, e.Message), err}
}

// explained puts the meaning before what was said, of which only the first
// line is shown.
type explained struct {
	rule, said string
	err        error
}

func (e explained) Error() string {
	const most = 300
	said, _, _ := strings.Cut(e.said, "\n")
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "…"
	}
	return fmt.Sprintf("%s (%s)", e.rule, said)
}

func (e explained) Unwrap() error { return e.err }
