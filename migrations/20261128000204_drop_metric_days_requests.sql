-- no-transaction
-- Every query that it served is served by metric_days_of_requests, also those of old programs.
DROP INDEX CONCURRENTLY metric_days_requests;
