-- Who read what: the facts themselves are in files, one a segment.
-- missed: of a path that is not there, the month in which it was first asked for; 0: a page
CREATE TABLE pages (
  number  INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  path    TEXT NOT NULL,
  missed  INTEGER NOT NULL
) STRICT;
CREATE TABLE agents (
  number INTEGER PRIMARY KEY,
  token  TEXT NOT NULL,
  class  TEXT NOT NULL,
  hosted INTEGER NOT NULL
) STRICT;
-- sources of visits
CREATE TABLE referrals (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL,
  class  TEXT NOT NULL
) STRICT;
-- key: NULL when the epoch is closed
CREATE TABLE epochs (
  project TEXT NOT NULL,
  epoch   INTEGER NOT NULL,
  key     BLOB,
  opened  INTEGER NOT NULL,
  PRIMARY KEY (project, epoch)
) STRICT;
-- evidence: 0: facts of the day; 1: evidence of the epoch, whose last day it is
CREATE TABLE segments (
  number   INTEGER PRIMARY KEY AUTOINCREMENT,
  project  TEXT NOT NULL,
  epoch    INTEGER NOT NULL,
  evidence INTEGER NOT NULL,
  day      INTEGER NOT NULL,
  level    INTEGER NOT NULL,
  size     INTEGER NOT NULL
) STRICT;
CREATE INDEX segments_of_days ON segments (project, epoch, evidence, day);
-- changed: the newest segment of the last commit that added facts (evidence: 0) or evidence (1) of the day
CREATE TABLE days (
  project  TEXT NOT NULL,
  evidence INTEGER NOT NULL,
  day      INTEGER NOT NULL,
  changed  INTEGER NOT NULL,
  PRIMARY KEY (project, evidence, day)
) STRICT;
CREATE TABLE positions (
  key      TEXT PRIMARY KEY,
  position BLOB NOT NULL
) STRICT;
-- watermark: Unix seconds of the newest line
CREATE TABLE sources (
  source        TEXT PRIMARY KEY,
  watermark     INTEGER NOT NULL,
  possibly_lost INTEGER NOT NULL,
  lines         TEXT NOT NULL
) STRICT;
-- ids of bodies and requests that were pushed, 8 bytes each. at: Unix seconds of the commit
CREATE TABLE pushed (
  generation INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  ids        BLOB NOT NULL
) STRICT;
CREATE INDEX pushed_generations ON pushed (generation);
-- the key of these ids: one row
CREATE TABLE pushing (
  id  INTEGER PRIMARY KEY CHECK (id = 1),
  key BLOB NOT NULL
) STRICT;
-- source: of scope ingest, the only one that the key opens; empty: those that feed its project alone
CREATE TABLE keys (
  id      TEXT PRIMARY KEY,
  digest  BLOB NOT NULL UNIQUE,
  project TEXT NOT NULL,
  scope   TEXT NOT NULL,
  source  TEXT NOT NULL,
  created INTEGER NOT NULL
) STRICT;
-- the last mark of the clock, in Unix seconds: one row. since: 0 without a stop
CREATE TABLE clock (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  at     INTEGER NOT NULL,
  since  INTEGER NOT NULL,
  steady INTEGER NOT NULL,
  jumped INTEGER NOT NULL
) STRICT;
-- humans: the mode of counting people; changed: the greatest of the days' when this was the answer
CREATE TABLE answers (
  report   TEXT NOT NULL,
  project  TEXT NOT NULL,
  humans   TEXT NOT NULL,
  from_day INTEGER NOT NULL,
  to_day   INTEGER NOT NULL,
  changed  INTEGER NOT NULL,
  answer   BLOB NOT NULL,
  PRIMARY KEY (report, project, humans, from_day, to_day)
) STRICT;
