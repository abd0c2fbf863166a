package facts

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"time"
)

// Pushed are ids of bodies and requests that were pushed over HTTP: MACs under the key of [Store.PushKey]. They are
// forgotten by generation.
type Pushed struct {
	Generation int64
	At         time.Time
	IDs        []uint64
}

// keep makes the ids durable, and removes the ids of forgotten generations.
func (p Pushed) keep(tx *sql.Tx, forgotten int64) error {
	if len(p.IDs) > 0 {
		text := make([]byte, 0, 8*len(p.IDs))
		for _, id := range p.IDs {
			text = binary.LittleEndian.AppendUint64(text, id)
		}
		if _, err := tx.Exec("INSERT INTO pushed (generation, at, ids) VALUES (?, ?, ?)", p.Generation, p.At.Unix(),
			text); err != nil {
			return err
		}
	}
	if forgotten == 0 {
		return nil
	}
	_, err := tx.Exec("DELETE FROM pushed WHERE generation <= ?", forgotten)
	return err
}

// PushKey returns the key of the ids that were pushed. The first call makes it.
func (s *Store) PushKey(ctx context.Context) (h Hash, err error) {
	key := make([]byte, KeySize)
	rand.Read(key)
	err = s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec("INSERT INTO pushing (id, key) VALUES (1, ?) ON CONFLICT DO NOTHING", key); err != nil {
			return err
		}
		return tx.QueryRow("SELECT key FROM pushing").Scan(&key)
	})
	if err == nil && len(key) != KeySize {
		err = fmt.Errorf("%w: the key of what was pushed has %d bytes: %s", ErrUnusable, len(key), remedy)
	}
	if err != nil {
		return h, err
	}
	return NewHash(key), nil
}

// EachPushed calls each with all ids that were pushed and are not forgotten, the oldest generation first.
func (s *Store) EachPushed(ctx context.Context, each func(Pushed)) error {
	_, err := query(ctx, s.sql, func(row scanner) (struct{}, error) {
		var p Pushed
		var at int64
		var text []byte
		if err := row.Scan(&p.Generation, &at, &text); err != nil {
			return struct{}{}, err
		}
		for ; len(text) >= 8; text = text[8:] {
			p.IDs = append(p.IDs, binary.LittleEndian.Uint64(text))
		}
		p.At = time.Unix(at, 0).UTC()
		each(p)
		return struct{}{}, nil
	}, "SELECT generation, at, ids FROM pushed ORDER BY generation, rowid")
	return err
}
