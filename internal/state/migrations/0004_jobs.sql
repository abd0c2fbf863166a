-- The journal of the prompt queue. Times are microseconds since
-- 1970-01-01T00:00:00Z, 0 is never. A seq is never used again.
CREATE TABLE jobs (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  version         INTEGER NOT NULL,
  prompt          TEXT    NOT NULL,
  firing          INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  project         TEXT    NOT NULL,
  title           TEXT    NOT NULL,
  path            TEXT    NOT NULL,
  digest          TEXT    NOT NULL,
  concurrency_key TEXT    NOT NULL,
  resubmit        INTEGER NOT NULL,
  messages        INTEGER NOT NULL,
  sent            INTEGER NOT NULL,
  sending         INTEGER NOT NULL,
  state           TEXT    NOT NULL,
  reason          TEXT    NOT NULL,
  in_doubt        INTEGER NOT NULL,
  job_id          TEXT    NOT NULL,
  status          TEXT    NOT NULL,
  repository      TEXT    NOT NULL,
  ref             TEXT    NOT NULL,
  model           TEXT    NOT NULL,
  pr_link         TEXT    NOT NULL,
  begun_at        INTEGER NOT NULL,
  created_at      INTEGER NOT NULL,
  ended_at        INTEGER NOT NULL,
  charged_at      INTEGER NOT NULL,
  accepted_at     INTEGER NOT NULL,
  next_at         INTEGER NOT NULL,
  tries           INTEGER NOT NULL,
  blocked_until   INTEGER NOT NULL,
  polls           INTEGER NOT NULL,
  missing_since   INTEGER NOT NULL,
  seen_active     INTEGER NOT NULL,
  seen_done       INTEGER NOT NULL,
  UNIQUE (prompt, firing, attempt)
) STRICT;

-- What is sent, rendered: long, and seldom wanted. follow_ups is a JSON list.
CREATE TABLE job_texts (
  job        INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  text       TEXT NOT NULL,
  follow_ups TEXT NOT NULL
) STRICT;

-- What happened. Job 0 is the queue itself.
CREATE TABLE job_events (
  id         INTEGER PRIMARY KEY,
  job        INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  from_state TEXT    NOT NULL,
  to_state   TEXT    NOT NULL,
  cause      TEXT    NOT NULL
) STRICT;
CREATE INDEX job_events_of ON job_events (job, id);

-- What holds the whole queue up: one row.
CREATE TABLE queue (
  one         INTEGER PRIMARY KEY CHECK (one = 1),
  version     INTEGER NOT NULL,
  paused      TEXT    NOT NULL,
  since       INTEGER NOT NULL,
  detail      TEXT    NOT NULL,
  answered_at INTEGER NOT NULL,
  released_at INTEGER NOT NULL,
  unknowns    INTEGER NOT NULL,
  adopted     INTEGER NOT NULL,
  key_mark    TEXT    NOT NULL
) STRICT;
INSERT INTO queue VALUES (1, 1, '', 0, '', 0, 0, 0, 0, '');

-- Prompts with a schedule, and since when their firings count.
CREATE TABLE recurring (
  prompt   TEXT    PRIMARY KEY,
  schedule TEXT    NOT NULL,
  since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Notifications that are not delivered yet.
CREATE TABLE notes (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  kind    TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  body    BLOB    NOT NULL,
  tries   INTEGER NOT NULL,
  next_at INTEGER NOT NULL
) STRICT;
