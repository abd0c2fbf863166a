-- When a periodic duty, like collecting what sinks no longer show, was last
-- done, in microseconds since 1970-01-01T00:00:00Z.
CREATE TABLE duties (
  name    TEXT PRIMARY KEY,
  done_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
