-- The pages with the most visitors of the newest window of each project and
-- granularity, and of which reading they are: for gauges only.
CREATE TABLE newest_pages (
  project      TEXT    NOT NULL,
  granularity  TEXT    NOT NULL,
  window_start INTEGER NOT NULL,
  window_end   INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  PRIMARY KEY (project, granularity)
) STRICT, WITHOUT ROWID;

CREATE TABLE pages (
  project     TEXT    NOT NULL,
  granularity TEXT    NOT NULL,
  place       INTEGER NOT NULL, -- 0 is the page with the most visitors
  path        TEXT    NOT NULL,
  human       INTEGER NOT NULL,
  ai          INTEGER NOT NULL,
  total       INTEGER NOT NULL,
  PRIMARY KEY (project, granularity, place)
) STRICT, WITHOUT ROWID;

-- How often something took how long, over all processes. The bucket is that of
-- the metric, sum is in microseconds; labels are as in counters.
CREATE TABLE histograms (
  name   TEXT    NOT NULL,
  labels TEXT    NOT NULL,
  bucket INTEGER NOT NULL,
  count  INTEGER NOT NULL,
  sum    INTEGER NOT NULL,
  PRIMARY KEY (name, labels, bucket)
) STRICT, WITHOUT ROWID;

-- What was last found, like that a key is refused; labels are as in counters.
CREATE TABLE flags (
  name   TEXT    NOT NULL,
  labels TEXT    NOT NULL,
  value  INTEGER NOT NULL,
  PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

-- When the last good run ended, which runs tell as far as they go back.
INSERT INTO duties SELECT 'export', max(finished_at) FROM runs
  WHERE outcome IN ('success', 'deferred') HAVING max(finished_at) IS NOT NULL;
