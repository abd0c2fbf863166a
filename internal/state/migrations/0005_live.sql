-- What is known of a reading beside what it says: the checksum of its rows
-- (analytics.Checksum; empty where it is not known), and of an unverified one how
-- many rows were read before the totals last moved, and how many came twice.
ALTER TABLE revisions ADD COLUMN checksum TEXT NOT NULL DEFAULT '';
ALTER TABLE revisions ADD COLUMN moved_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE revisions ADD COLUMN repeated_rows INTEGER NOT NULL DEFAULT 0;

-- Windows that the service does not give as they should be: not asked for again
-- before until. Times are microseconds since 1970-01-01T00:00:00Z.
CREATE TABLE set_aside (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  reason       TEXT    NOT NULL,
  detail       TEXT    NOT NULL,
  failures     INTEGER NOT NULL,
  since        INTEGER NOT NULL,
  until        INTEGER NOT NULL,
  PRIMARY KEY (project, granularity, window_start, window_end)
) STRICT, WITHOUT ROWID;

-- Whether windows moved while they were read, and how often in a row: the last
-- readings of each project and granularity, by kind (schedule.MovementKind).
CREATE TABLE movements (
  project     TEXT    NOT NULL,
  granularity TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  times       INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  PRIMARY KEY (project, granularity, kind)
) STRICT, WITHOUT ROWID;

-- How many rows the service puts on a page, where it is not as many as are asked for.
CREATE TABLE page_sizes (
  project TEXT    PRIMARY KEY,
  rows    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
