-- When a request was sent first: sent again it is the same one, and an answer to either ends it. NULL where an earlier
-- program sent it.
ALTER TABLE report_keys ADD COLUMN asked_at timestamptz;
