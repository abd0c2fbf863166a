package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
)

// schemaVersion is the newest that this program knows.
const schemaVersion = 1

// placedOn stands between flavour and placement in the record of a migration.
const placedOn = " on "

// migrate brings the schema up to date. Every statement may be run again, also
// by another process at the same time; a schema that is up to date is only
// looked at, so that exporting needs no right to create. A schema newer than
// this program is refused.
func (ses *session) migrate(ctx context.Context) error {
	version, made, err := ses.migrated(ctx)
	if err != nil {
		return err
	}
	flavour, placement, placed := strings.Cut(made, placedOn)
	if err := known(version); err != nil {
		return err
	}
	switch {
	case placed && placement != ses.placement():
		return fmt.Errorf("the tables were made for %s, and this is %s: windows would lie in two places; name another database, or drop the docgauge_ tables and views everywhere and fill them with `docgauge load --sink clickhouse`", placement, ses.placement())
	case version == schemaVersion && flavour == ses.flavour():
		return nil
	}
	statements := append(append([]string{ses.versions()}, ses.tables()...), ses.views()...)
	for _, statement := range statements {
		if err := ses.define(ctx, statement); err != nil {
			return fmt.Errorf("making tables and views: %w", err)
		}
	}
	return ses.recordMigration(ctx)
}

// known refuses a schema newer than this program.
func known(version uint32) error {
	if version > schemaVersion {
		return fmt.Errorf("the tables have schema version %d, this program knows %d: use the release of docgauge that made them, or a newer one", version, schemaVersion)
	}
	return nil
}

// migrated returns the version of the schema that is there, 0 if none, and how
// it was made: flavour and placement.
func (ses *session) migrated(ctx context.Context) (version uint32, made string, err error) {
	var there uint8
	if err := ses.conn.QueryRow(ctx, "EXISTS TABLE "+ses.in(versionsTable)).Scan(&there); err != nil || there == 0 {
		return 0, "", err
	}
	err = ses.conn.QueryRow(ctx, "SELECT version, views FROM "+ses.in(versionsTable)+" ORDER BY version DESC, applied_at DESC LIMIT 1").Scan(&version, &made)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	return version, made, err
}

// recordMigration needs no quorum: a process that does not see the record yet
// runs statements that do nothing. Two that begin at once must not refuse each
// other.
func (ses *session) recordMigration(ctx context.Context) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(ses.synchronous()))
	batch, err := ses.conn.PrepareBatch(ctx, "INSERT INTO "+ses.in(versionsTable)+" (version, views)")
	if err != nil {
		return err
	}
	if err := batch.Append(uint32(schemaVersion), ses.flavour()+placedOn+ses.placement()); err != nil {
		return errors.Join(err, batch.Abort())
	}
	return batch.Send()
}
