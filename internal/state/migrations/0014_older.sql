-- When a cooldown was set: one that was set in the future lasts as long, from now on.
ALTER TABLE cooldowns ADD COLUMN set_at INTEGER NOT NULL DEFAULT 0;

-- What tells a state from the same state at another time, by what outlives it: its id, and
-- how many creates and follow-ups were begun. restored is 1 while the operator has not
-- decided about the prompts of a state that comes from an older backup.
ALTER TABLE queue ADD COLUMN id TEXT NOT NULL DEFAULT '';
ALTER TABLE queue ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN restored INTEGER NOT NULL DEFAULT 0;
UPDATE queue SET id = lower(hex(randomblob(8))),
  begun = (SELECT coalesce(max(seq), 0) + coalesce(sum(sent), 0) FROM jobs);
