-- Requests are entered in groups before they are sent: slots of them, the last at
-- sent_at at the latest. lasts is how long after its entry that is, in microseconds.
ALTER TABLE requests ADD COLUMN lasts INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER requests_given_back AFTER UPDATE OF slots ON requests BEGIN
  UPDATE slots SET taken = taken + NEW.slots - OLD.slots WHERE budget = NEW.budget;
END;
