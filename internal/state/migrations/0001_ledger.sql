-- One row for each committed reading of a window. Dates are days since
-- 1970-01-01, times are microseconds since 1970-01-01T00:00:00Z.
CREATE TABLE revisions (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  settled      INTEGER NOT NULL,
  verified     INTEGER NOT NULL,
  row_count    INTEGER NOT NULL,
  human        INTEGER NOT NULL,
  ai           INTEGER NOT NULL,
  total        INTEGER NOT NULL,
  exported_at  INTEGER NOT NULL,
  requests     INTEGER NOT NULL,
  PRIMARY KEY (project, granularity, window_start, window_end, revision)
) STRICT, WITHOUT ROWID;

-- Which sink is owed, or has, which revision; committed_at is null while owed.
CREATE TABLE deliveries (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  sink         TEXT    NOT NULL,
  committed_at INTEGER,
  PRIMARY KEY (project, granularity, window_start, window_end, revision, sink)
) STRICT, WITHOUT ROWID;

-- The newest reading of the running window: for gauges only.
CREATE TABLE open_windows (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  human        INTEGER NOT NULL,
  ai           INTEGER NOT NULL,
  total        INTEGER NOT NULL,
  read_at      INTEGER NOT NULL,
  PRIMARY KEY (project, granularity)
) STRICT, WITHOUT ROWID;

-- The sliding log: a row is written before its request is sent. An id is never
-- used again: an answer that comes late must not meet another request's row.
CREATE TABLE requests (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  budget  TEXT    NOT NULL,
  sent_at INTEGER NOT NULL,
  done_at INTEGER
) STRICT;

CREATE TABLE cooldowns (
  budget TEXT    PRIMARY KEY,
  until  INTEGER NOT NULL,
  step   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Monotonic over processes. labels is the canonical {a="x",b="y"} text.
CREATE TABLE counters (
  name   TEXT    NOT NULL,
  labels TEXT    NOT NULL,
  value  INTEGER NOT NULL,
  PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  id          INTEGER PRIMARY KEY,
  started_at  INTEGER NOT NULL,
  finished_at INTEGER,
  outcome     TEXT,
  message     TEXT,
  windows     INTEGER NOT NULL DEFAULT 0,
  requests    INTEGER NOT NULL DEFAULT 0
) STRICT;
