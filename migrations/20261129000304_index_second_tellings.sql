CREATE INDEX IF NOT EXISTS reports_second_telling ON ONLY reports (stored_at)
    WHERE fatal AND same_crash_as IS NULL AND (second_telling OR metric_kit OR variant > 0);
