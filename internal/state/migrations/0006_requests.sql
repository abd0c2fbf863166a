-- What occupies a budget is known without reading its whole log: an entry is in
-- one of two indexes, by the time its slots free, and the slots are counted.

-- Requests without a limit are entered in groups; slots is how many.
ALTER TABLE requests ADD COLUMN slots INTEGER NOT NULL DEFAULT 1;

CREATE INDEX requests_answered ON requests (budget, done_at) WHERE done_at IS NOT NULL;
CREATE INDEX requests_unanswered ON requests (budget, sent_at) WHERE done_at IS NULL;

-- The sum of slots over the log of each budget.
CREATE TABLE slots (
  budget TEXT    PRIMARY KEY,
  taken  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO slots SELECT budget, sum(slots) FROM requests GROUP BY budget;

CREATE TRIGGER requests_entered AFTER INSERT ON requests BEGIN
  INSERT INTO slots VALUES (NEW.budget, NEW.slots)
    ON CONFLICT DO UPDATE SET taken = taken + NEW.slots;
END;

CREATE TRIGGER requests_dropped AFTER DELETE ON requests BEGIN
  UPDATE slots SET taken = taken - OLD.slots WHERE budget = OLD.budget;
END;
