-- no-transaction
CREATE INDEX CONCURRENTLY metric_days_of_requests
    ON metric_days (tenant, app, dimension, day DESC, version DESC, value DESC, metric DESC)
    WHERE dimension IN ('connection', 'endpoint', 'host', 'protocol', 'result');
