-- The schema of the state as of docgauge 0.1.0, which is number 103; migrations.go has what came
-- later. Dates are days since 1970-01-01, times are microseconds since 1970-01-01T00:00:00Z. {totals} stands
-- for a column for each count of analytics.Totals.

-- One row for each committed reading of a window; report is analytics.Report. checksum is
-- analytics.Checksum of its rows, empty where it is not known; moved_rows and repeated_rows are the
-- suspect rows of an unverified reading.
CREATE TABLE revisions (
  project       TEXT    NOT NULL,
  granularity   TEXT    NOT NULL,
  window_start  INTEGER NOT NULL,
  window_end    INTEGER NOT NULL,
  report        INTEGER NOT NULL,
  revision      INTEGER NOT NULL,
  settled       INTEGER NOT NULL,
  verified      INTEGER NOT NULL,
  row_count     INTEGER NOT NULL,
  {totals}
  humans        TEXT    NOT NULL, -- analytics.Humans
  exported_at   INTEGER NOT NULL,
  requests      INTEGER NOT NULL,
  checksum      TEXT    NOT NULL,
  moved_rows    INTEGER NOT NULL,
  repeated_rows INTEGER NOT NULL,
  PRIMARY KEY (project, granularity, window_start, window_end, report, revision)
) STRICT, WITHOUT ROWID;

-- Which sink is owed, or has, which revision; committed_at is null while it is owed.
CREATE TABLE deliveries (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  report       INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  sink         TEXT    NOT NULL,
  committed_at INTEGER,
  PRIMARY KEY (project, granularity, window_start, window_end, report, revision, sink)
) STRICT, WITHOUT ROWID;

-- Windows that failed when they were last read: they are not requested again before until.
CREATE TABLE set_aside (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  report       INTEGER NOT NULL,
  reason       TEXT    NOT NULL,
  detail       TEXT    NOT NULL,
  failures     INTEGER NOT NULL,
  since        INTEGER NOT NULL,
  until        INTEGER NOT NULL,
  PRIMARY KEY (project, granularity, window_start, window_end, report)
) STRICT, WITHOUT ROWID;

-- The newest reading of the running window, for gauges only.
CREATE TABLE open_windows (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  {totals}
  humans        TEXT    NOT NULL, -- analytics.Humans
  read_at      INTEGER NOT NULL,
  PRIMARY KEY (project, granularity)
) STRICT, WITHOUT ROWID;

-- The first rows of the newest window of each report, and the reading they are from, for gauges only.
CREATE TABLE newest_windows (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  report       INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  more         INTEGER NOT NULL, -- the number of rows besides top_rows
  PRIMARY KEY (report, project, granularity)
) STRICT, WITHOUT ROWID;

CREATE TABLE top_rows (
  project     TEXT    NOT NULL,
  granularity TEXT    NOT NULL,
  report      INTEGER NOT NULL,
  place       INTEGER NOT NULL, -- 0 is the row with the most visitors
  {record}
  PRIMARY KEY (report, project, granularity, place)
) STRICT, WITHOUT ROWID;

-- What was learned about the windows of a report of each project and granularity, such as how often in
-- a row they moved while they were read, by kind (schedule.Fact).
CREATE TABLE movements (
  project     TEXT    NOT NULL,
  granularity TEXT    NOT NULL,
  report      INTEGER NOT NULL,
  kind        TEXT    NOT NULL,
  times       INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  PRIMARY KEY (project, granularity, report, kind)
) STRICT, WITHOUT ROWID;

-- How many rows the service puts on a page, where it is fewer than docgauge requests.
CREATE TABLE page_sizes (
  project TEXT    NOT NULL,
  report  INTEGER NOT NULL,
  rows    INTEGER NOT NULL,
  PRIMARY KEY (project, report)
) STRICT, WITHOUT ROWID;

-- Readings of windows that were named by their dates (export --from --to): the same command
-- continues until each window was read after began_at. name is the selection; done_at is null until
-- then.
CREATE TABLE readings (
  name     TEXT    PRIMARY KEY,
  began_at INTEGER NOT NULL,
  done_at  INTEGER
) STRICT, WITHOUT ROWID;

-- The sliding log of requests: an entry is written before the first of its requests is sent, and
-- removed when its slots are free. set_at is when frees_at was last set: if that is in the future,
-- the clock was set back. unsure: nothing had confirmed the clock that set it, so it counts as set now.
-- An id is never used again: a late answer must not meet another entry.
CREATE TABLE requests (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  budget   TEXT    NOT NULL,
  slots    INTEGER NOT NULL,
  set_at   INTEGER NOT NULL,
  frees_at INTEGER NOT NULL,
  answered INTEGER NOT NULL DEFAULT 0,
  unsure   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX requests_of ON requests (budget, frees_at);

-- Until when a budget stays closed (0: open), and how many throttles led to that. set_at and unsure are as in
-- requests.
CREATE TABLE cooldowns (
  budget TEXT    PRIMARY KEY,
  until  INTEGER NOT NULL,
  step   INTEGER NOT NULL,
  set_at INTEGER NOT NULL,
  unsure INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counters continue across processes. labels is the text that Labels makes.
CREATE TABLE counters (
  name   TEXT    NOT NULL,
  labels TEXT    NOT NULL,
  value  INTEGER NOT NULL,
  PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

-- The bucket is as in the metric; sum is in microseconds.
CREATE TABLE histograms (
  name   TEXT    NOT NULL,
  labels TEXT    NOT NULL,
  bucket INTEGER NOT NULL,
  count  INTEGER NOT NULL,
  sum    INTEGER NOT NULL,
  PRIMARY KEY (name, labels, bucket)
) STRICT, WITHOUT ROWID;

-- Findings that are true or false, such as that a key is refused.
CREATE TABLE flags (
  name   TEXT    NOT NULL,
  labels TEXT    NOT NULL,
  value  INTEGER NOT NULL,
  PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  id          INTEGER PRIMARY KEY,
  started_at  INTEGER NOT NULL,
  finished_at INTEGER,
  outcome     TEXT    NOT NULL DEFAULT '',
  message     TEXT    NOT NULL DEFAULT '',
  windows     INTEGER NOT NULL DEFAULT 0,
  requests    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- When something that is done now and then, such as removing what sinks no longer show, was last
-- done.
CREATE TABLE duties (
  name    TEXT PRIMARY KEY,
  done_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The journal of the prompt queue. A time of 0 is never. A seq is never used again. pages is a JSON
-- list, or empty; cost is in a unit of the operator's choice; renamed_from is the former path of a
-- prompt that seems to be renamed.
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
  renamed_from    TEXT    NOT NULL,
  cost            REAL,
  cost_unit       TEXT    NOT NULL,
  tokens          INTEGER,
  estimate        REAL    NOT NULL,
  pages           TEXT    NOT NULL,
  UNIQUE (prompt, firing, attempt)
) STRICT;

-- What is sent, rendered: long, and rarely read. follow_ups is a JSON list.
CREATE TABLE job_texts (
  job        INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  text       TEXT NOT NULL,
  follow_ups TEXT NOT NULL
) STRICT;

-- What happened to jobs. Job 0 is the queue itself.
CREATE TABLE job_events (
  id         INTEGER PRIMARY KEY,
  job        INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  from_state TEXT    NOT NULL,
  to_state   TEXT    NOT NULL,
  cause      TEXT    NOT NULL
) STRICT;
CREATE INDEX job_events_of ON job_events (job, id);

-- The queue as a whole: one row. id and begun (how many creates and follow-ups were begun) tell a
-- state from the same state at another time. restored is 1 until the operator has decided about the
-- prompts of a state that comes from an older backup.
CREATE TABLE queue (
  one         INTEGER PRIMARY KEY CHECK (one = 1),
  version     INTEGER NOT NULL,
  paused      TEXT    NOT NULL DEFAULT '',
  since       INTEGER NOT NULL DEFAULT 0,
  detail      TEXT    NOT NULL DEFAULT '',
  answered_at INTEGER NOT NULL DEFAULT 0,
  released_at INTEGER NOT NULL DEFAULT 0,
  unknowns    INTEGER NOT NULL DEFAULT 0,
  adopted     INTEGER NOT NULL DEFAULT 0,
  key_mark    TEXT    NOT NULL DEFAULT '',
  id          TEXT    NOT NULL,
  begun       INTEGER NOT NULL DEFAULT 0,
  restored    INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO queue (one, version, id) VALUES (1, 1, lower(hex(randomblob(8))));

-- Prompts with a schedule, and since when their firings count.
CREATE TABLE recurring (
  prompt   TEXT    PRIMARY KEY,
  schedule TEXT    NOT NULL,
  since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The pull requests of the jobs, which they outlive. A next_at of 0 is never; final is 1 for one
-- that is never read again. known is the journal's PullRequest as JSON.
CREATE TABLE pull_requests (
  link    TEXT    PRIMARY KEY,
  project TEXT    NOT NULL,
  state   TEXT    NOT NULL,
  next_at INTEGER NOT NULL,
  final   INTEGER NOT NULL,
  known   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Events that are not delivered to the webhook yet. begun_at is since when one is being sent, or 0;
-- in_doubt counts the deliveries that may have arrived.
CREATE TABLE events (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  kind     TEXT    NOT NULL,
  at       INTEGER NOT NULL,
  body     BLOB    NOT NULL,
  tries    INTEGER NOT NULL DEFAULT 0,
  next_at  INTEGER NOT NULL,
  begun_at INTEGER NOT NULL DEFAULT 0,
  in_doubt INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What was reported by an event and has not ended, so that it is reported once. value grows with
-- each repetition.
CREATE TABLE reported (
  name  TEXT    PRIMARY KEY,
  at    INTEGER NOT NULL,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
