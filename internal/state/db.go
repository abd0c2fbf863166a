package state

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/sqlite"
)

// DB is an open state database, safe for concurrent use.
type DB struct {
	sql *sql.DB
	// reads is sql, or the transaction of Reading.
	reads   querier
	dir     string
	changes durable.Group[*change]
	// blocked is the last long wait for the lock of another program, or the present one.
	blocked atomic.Pointer[lockWait]
	// file describes the database's file when it was opened; nil in memory.
	file fs.FileInfo
}

// Dir returns the state directory.
func (db *DB) Dir() string { return db.dir }

// Close releases the database.
func (db *DB) Close() error { return db.sql.Close() }

// Reading calls do with the state as it is at one moment. do uses nothing but that state, and does not write.
func (db *DB) Reading(ctx context.Context, do func(*DB) error) error {
	t, err := db.sql.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return db.wrap(ctx, err)
	}
	defer t.Rollback() //nolint:errcheck // nothing was written
	return do(&DB{reads: t, dir: db.dir})
}

// change is the work of one call of write.
type change struct {
	ctx context.Context
	do  func(*tx)
	err error
}

// write runs do in an immediate transaction. Calls that are made while another is in progress share
// the next one, and its flush to disk: without that, 1,000 small windows take 1.2 times as long. A
// change that fails is undone alone, and no call returns before the transaction is over, so that
// each can be taken for a transaction.
func (db *DB) write(ctx context.Context, do func(*tx)) error {
	c := &change{ctx: ctx, do: do}
	err := db.changes.Do(c, func(all []*change) error { return db.commit(context.WithoutCancel(ctx), all) })
	return db.wrap(ctx, cmp.Or(c.err, err))
}

// commit makes the changes in one transaction. An interrupted statement would undo all of it, so
// the end of one caller's context only keeps its change from being begun.
func (db *DB) commit(ctx context.Context, all []*change) error {
	began, former := time.Now(), db.blocked.Load()
	db.blocked.Store(&lockWait{from: began})
	together, err := db.sql.BeginTx(ctx, nil)
	if now := time.Now(); now.Sub(began) >= longWait {
		former = &lockWait{began, now}
	}
	db.blocked.Store(former)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.err = context.Cause(c.ctx); c.err != nil {
			continue
		}
		savepoint := tx{ctx: ctx, sql: together}
		if savepoint.exec("SAVEPOINT change"); savepoint.err == nil {
			t := tx{ctx: ctx, sql: together}
			c.do(&t)
			if c.err = t.err; c.err != nil {
				savepoint.exec("ROLLBACK TO change")
			}
			savepoint.exec("RELEASE change")
		}
		if savepoint.err != nil { // where the disk is full, SQLite has undone the whole transaction
			err := errors.Join(c.err, savepoint.err)
			if rerr := together.Rollback(); !errors.Is(rerr, sql.ErrTxDone) {
				err = errors.Join(err, rerr)
			}
			return err
		}
	}
	return together.Commit()
}

// lockWait is a wait for the lock of another program; to is zero while it lasts.
type lockWait struct{ from, to time.Time }

// longWait is how long a wait for the lock is worth remembering.
const longWait = 100 * time.Millisecond

// tx is a transaction. After its first error its methods do nothing, and that error is the one of
// the transaction.
type tx struct {
	ctx context.Context
	sql *sql.Tx
	err error
}

// fail ends the transaction with err, unless that is nil or there was an error before.
func (t *tx) fail(err error) { t.err = cmp.Or(t.err, err) }

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(statement string, args ...any) (changed int64) {
	changed, _ = t.insert(statement, args...)
	return changed
}

// insert runs a statement and returns how many rows it changed, and the id of the last row that was
// inserted.
func (t *tx) insert(statement string, args ...any) (changed, id int64) {
	if t.err != nil {
		return 0, 0
	}
	res, err := t.sql.ExecContext(t.ctx, statement, args...)
	if err == nil {
		changed, err = res.RowsAffected()
	}
	if err == nil {
		id, err = res.LastInsertId()
	}
	t.err = err
	return changed, id
}

// get reads the columns of a query's first row; false without a row.
func (t *tx) get(columns []any, query string, args ...any) (found bool) {
	if t.err == nil {
		found, t.err = get(t.ctx, t.sql, columns, query, args...)
	}
	return found
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func get(ctx context.Context, q querier, columns []any, query string, args ...any) (found bool, err error) {
	err = q.QueryRowContext(ctx, query, args...).Scan(columns...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// exec runs one statement.
func (db *DB) exec(ctx context.Context, statement string, args ...any) error {
	return db.write(ctx, func(t *tx) { t.exec(statement, args...) })
}

// get reads the columns of a query's first row; without a row they stay unchanged.
func (db *DB) get(ctx context.Context, columns []any, query string, args ...any) error {
	_, err := get(ctx, db.reads, columns, query, args...)
	return db.wrap(ctx, err)
}

// scan calls do with each row of a query; columns returns the fields that its columns are read into.
func scan[T any](ctx context.Context, q querier, columns func(*T) []any, do func(T), query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var row, zero T
	fields := columns(&row) // one for all rows, of which there can be millions
	for rows.Next() {
		row = zero
		if err := rows.Scan(fields...); err != nil {
			return err
		}
		do(row)
	}
	return rows.Err()
}

// list returns the rows of a query; columns is as in scan.
func list[T any](ctx context.Context, db *DB, columns func(*T) []any, query string, args ...any) (out []T, err error) {
	err = scan(ctx, db.reads, columns, func(row T) { out = append(out, row) }, query, args...)
	if err != nil {
		return nil, db.wrap(ctx, err)
	}
	return out, nil
}

// instant is a time in a column, in microseconds. The zero time is written as 0, and read from 0
// and NULL.
type instant struct{ *time.Time }

// Scan reads the column.
func (i instant) Scan(v any) error {
	micros, ok := v.(int64)
	if !ok && v != nil {
		return fmt.Errorf("a time is %T, not a number", v)
	}
	*i.Time = fromMicros(micros)
	return nil
}

func fromMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Value writes the column.
func (i instant) Value() (driver.Value, error) {
	if i.IsZero() {
		return int64(0), nil
	}
	return i.UnixMicro(), nil
}

// orNull is the column of a time that is NULL if it is zero.
func orNull(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}

// texts is a list of texts in a column: as JSON, or empty.
type texts struct{ list *[]string }

// Scan reads the column.
func (l texts) Scan(v any) error {
	*l.list = nil
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("a list is %T, not text", v)
	}
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), l.list)
}

// Value writes the column.
func (l texts) Value() (driver.Value, error) {
	if len(*l.list) == 0 {
		return "", nil
	}
	text, err := json.Marshal(*l.list)
	return string(text), err
}

// wrap is [wrap]. Its error also reports a deadline that passed while another program held the lock.
func (db *DB) wrap(ctx context.Context, err error) error {
	end, hasEnd := ctx.Deadline()
	w := db.blocked.Load()
	if hasEnd && w != nil && errors.Is(err, context.DeadlineExceeded) && !end.Before(w.from) &&
		(w.to.IsZero() || !end.After(w.to)) {
		err = fmt.Errorf("is locked by another program: %w", err)
	}
	return wrap(db.dir, err)
}

// wrap names the database and, where there is one, the remedy.
func wrap(dir string, err error) error {
	if err == nil {
		return nil
	}
	file := filepath.Join(dir, FileName)
	switch sqlite.KindOf(err) {
	case sqlite.Damaged:
		return fmt.Errorf("state %s: %w: it is damaged: %w (%s)", file, ErrUnusable, err, remedy)
	case sqlite.Full:
		return fmt.Errorf("state %s: the disk is full: %w (free space; nothing was lost)", file, err)
	case sqlite.Busy:
		return fmt.Errorf("state %s: is locked by another program: %w (end that program, then run this again)",
			file, err)
	case sqlite.Denied:
		return fmt.Errorf("state %s: cannot be written: %w (check owner and mode of DOCGAUGE_STATE_DIR)", file, err)
	}
	return fmt.Errorf("state %s: %w", file, err)
}
