-- The chosen bodies of a group and day, however many others were dropped.
CREATE INDEX IF NOT EXISTS reports_kept_bodies
    ON ONLY reports (tenant, group_id, received_at, report_id, variant)
    WHERE body_kept;
