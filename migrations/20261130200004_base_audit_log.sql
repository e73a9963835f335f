-- An owner is a tenant or the system. The system's name can be no slug: `~system`. In tables with rows of the system,
-- the reference to the tenant is a column that is NULL for the system.
CREATE TABLE audit_log (
    id            uuid PRIMARY KEY,
    tenant        text NOT NULL,
    -- The place of the entry in the log of its owner: 1, 2, 3 and so on, without gaps. NULL until its transaction commits.
    position      bigint,
    at            timestamptz NOT NULL,
    actor         text NOT NULL,
    action        text NOT NULL,
    subject       text NOT NULL,
    detail        jsonb NOT NULL DEFAULT '{}',
    owning_tenant text GENERATED ALWAYS AS (CASE WHEN tenant <> '~system' THEN tenant END) STORED REFERENCES tenants (slug)
);
CREATE INDEX audit_log_tenant ON audit_log (tenant, at DESC);
CREATE UNIQUE INDEX audit_log_position ON audit_log (tenant, position);
-- Written once: the service can neither change nor remove an entry. It outlives its tenant.
SELECT unslide_protect('audit_log', 'tenant', 'SELECT, INSERT');
REVOKE DELETE ON audit_log FROM unslide_service;

-- Gives each new entry its place, when its transaction commits: in the order of commits, so that a reader of a place finds no lower one
-- later. The time of an entry has no such order, because a transaction that began earlier may commit later. The lock is the last one of
-- a transaction. Only the revocation of keys of several tenants takes it for more than one, and one such transaction runs at a time.
CREATE FUNCTION unslide_number_audit_entry() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('positions of the audit log ' || NEW.tenant, 0));
    UPDATE audit_log
    SET position = 1 + coalesce((SELECT max(l.position) FROM audit_log l WHERE l.tenant = NEW.tenant), 0)
    WHERE id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION unslide_number_audit_entry FROM PUBLIC;
CREATE CONSTRAINT TRIGGER number_entry AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.position IS NULL) EXECUTE FUNCTION unslide_number_audit_entry();
