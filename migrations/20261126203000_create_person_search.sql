-- Whether the tenant lets people search reports by the id of a device, an installation or a user. It is off until the tenant
-- turns it on.
ALTER TABLE tenants ADD COLUMN person_search boolean NOT NULL DEFAULT false;

-- The newest reports of a device.
CREATE INDEX reports_device ON reports (tenant, device, received_at, report_id, variant) WHERE device IS NOT NULL;
-- The newest sessions of an installation, and of a user.
CREATE INDEX sessions_installation ON sessions (tenant, installation, day, session_id) WHERE installation IS NOT NULL;
CREATE INDEX sessions_user ON sessions (tenant, user_hash, day, session_id) WHERE user_hash IS NOT NULL;
