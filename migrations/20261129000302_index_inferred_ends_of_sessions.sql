-- Sessions that did not end by themselves, as far as the service inferred: those that a memory exception may be about.
CREATE INDEX IF NOT EXISTS sessions_inferred ON ONLY sessions (tenant, app, version, device, started_at)
    WHERE judgement IS NOT NULL AND end_reason NOT IN ('exited', 'crashed');
