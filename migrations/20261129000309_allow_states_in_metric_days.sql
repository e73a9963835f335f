-- Metrics count by the states that an app reported to MetricKit, too. The rows that are there were checked by the stricter rule.
ALTER TABLE metric_days DROP CONSTRAINT metric_days_dimension_check;
ALTER TABLE metric_days ADD CONSTRAINT metric_days_dimension_check
    CHECK (dimension IN ('', 'connection', 'endpoint', 'host', 'model', 'os_version', 'protocol', 'result', 'state')) NOT VALID;
