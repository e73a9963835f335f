-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS ticket_requests_tracker ON ticket_requests (tenant, tracker, due_at);
