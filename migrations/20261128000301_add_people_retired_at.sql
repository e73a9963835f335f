-- When the service itself revoked a person's key: they were long away, or their provider was removed. The next sign-in of
-- the person takes the key back into force.
ALTER TABLE people ADD COLUMN retired_at timestamptz;
