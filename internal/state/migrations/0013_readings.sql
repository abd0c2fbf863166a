-- Readings of windows that were named by their dates (export --from --to), so that the same
-- command continues until each window was read after began_at. name is the selection; done_at
-- is null until then. Times are microseconds since 1970-01-01T00:00:00Z.
CREATE TABLE readings (
  name     TEXT    PRIMARY KEY,
  began_at INTEGER NOT NULL,
  done_at  INTEGER
) STRICT, WITHOUT ROWID;
