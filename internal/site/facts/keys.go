package facts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// keyPrefix is what API keys begin with.
const keyPrefix = "dgs_"

// APIKey is an API key of one project, without its secret.
type APIKey struct {
	ID      string `json:"id"`
	Project string `json:"project"`
	Scope   string `json:"scope"` // admin, read, write or ingest
	// Source is the only one that a key of scope ingest opens; empty: all that feed its project alone.
	Source  string    `json:"source,omitempty"`
	Created time.Time `json:"created"`
}

// AddAPIKey makes a key, which is valid at once, and returns it with its secret. The secret is not
// kept: it is 256 random bits, so that a digest without a salt says nothing about it.
func (s *Store) AddAPIKey(
	ctx context.Context, project, scope, source string, now time.Time,
) (k APIKey, secret string, err error) {
	random := make([]byte, 32)
	rand.Read(random)
	secret = keyPrefix + base64.RawURLEncoding.EncodeToString(random)
	digest := sha256.Sum256([]byte(secret))
	k = APIKey{strings.ToLower(rand.Text()[:8]), project, scope, source, now.UTC().Truncate(time.Second)}
	return k, secret, s.keyError(s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO keys (id, digest, project, scope, source, created) "+
			"VALUES (?, ?, ?, ?, ?, ?)", k.ID, digest[:], k.Project, k.Scope, k.Source, k.Created.Unix())
		return err
	}))
}

// APIKeys returns all keys, the oldest first.
func (s *Store) APIKeys(ctx context.Context) (all []APIKey, err error) {
	rows, err := s.sql.QueryContext(ctx, "SELECT id, project, scope, source, created FROM keys ORDER BY created, id")
	if err != nil {
		return nil, s.keyError(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err says it
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return nil, s.keyError(err)
		}
		all = append(all, k)
	}
	return all, s.keyError(rows.Err())
}

// FindAPIKey returns the key whose secret has the digest; false without one.
func (s *Store) FindAPIKey(ctx context.Context, digest [sha256.Size]byte) (k APIKey, found bool, err error) {
	k, err = scanKey(s.sql.QueryRowContext(ctx, "SELECT id, project, scope, source, created FROM keys "+
		"WHERE digest = ?", digest[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return APIKey{}, false, nil
	}
	return k, err == nil, s.keyError(err)
}

func scanKey(row interface{ Scan(...any) error }) (k APIKey, err error) {
	var created int64
	err = row.Scan(&k.ID, &k.Project, &k.Scope, &k.Source, &created)
	k.Created = time.Unix(created, 0).UTC()
	return k, err
}

// RevokeAPIKey removes the key with an id, at once; false without one.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) (found bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM keys WHERE id = ?", id)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		found = n > 0
		return err
	})
	return found && err == nil, s.keyError(err)
}

func (s *Store) keyError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: keys: %w", s.dir, err)
}
