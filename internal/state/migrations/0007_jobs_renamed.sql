-- The path a prompt had, as it looks, that was held for that; empty for all others.
ALTER TABLE jobs ADD COLUMN renamed_from TEXT NOT NULL DEFAULT '';
