-- The reports of a crash that another report is counted for.
CREATE INDEX IF NOT EXISTS reports_same_crash ON ONLY reports (tenant, same_crash_as) WHERE same_crash_as IS NOT NULL;
