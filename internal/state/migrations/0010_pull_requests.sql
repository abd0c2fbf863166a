-- The pull requests of the jobs. They outlive their jobs: what became of them is told long
-- after. next_at is in microseconds since 1970-01-01T00:00:00Z, 0 is never. final is 1 for
-- one that is never read again. known is the journal's PullRequest as JSON.
CREATE TABLE pull_requests (
  link    TEXT    PRIMARY KEY,
  project TEXT    NOT NULL,
  state   TEXT    NOT NULL,
  next_at INTEGER NOT NULL,
  final   INTEGER NOT NULL,
  known   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
