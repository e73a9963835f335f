-- no-transaction
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS audit_log_position ON audit_log (tenant, position);
