-- What a job costs once it is created, in a unit of the operator's, and the paths of the
-- pages that its prompt names, as a JSON list, or empty.
ALTER TABLE jobs ADD COLUMN cost  REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN pages TEXT NOT NULL DEFAULT '';
