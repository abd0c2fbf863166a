-- A notification that is being sent: since when, 0 if it is not. in_doubt counts the
-- deliveries of which nobody knows whether they arrived.
ALTER TABLE notes ADD COLUMN begun_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notes ADD COLUMN in_doubt INTEGER NOT NULL DEFAULT 0;

-- What people were told of, so that they are told once. value grows where they are
-- told of the same matter again. Times are microseconds since 1970-01-01T00:00:00Z.
CREATE TABLE told (
  matter TEXT    PRIMARY KEY,
  at     INTEGER NOT NULL,
  value  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
