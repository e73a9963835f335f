-- As `reports_process_identity`, of reports of MetricKit.
CREATE INDEX IF NOT EXISTS reports_metric_kit_identity
    ON ONLY reports (tenant, process_identity, app, (run_id IS NULL), received_at, report_id)
    WHERE process_identity IS NOT NULL AND metric_kit AND fatal;
