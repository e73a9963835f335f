-- Failures of a tracker in a row: each makes the pause before the next request longer.
ALTER TABLE trackers ADD COLUMN failures integer NOT NULL DEFAULT 0;
