-- The reports of a tenant with rows in ClickHouse, by their time.
CREATE INDEX IF NOT EXISTS report_keys_moved
    ON ONLY report_keys (tenant, received_at)
    WHERE history_version IS NOT NULL;
