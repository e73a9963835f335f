-- Gives each new entry its place, when its transaction commits: in the order of commits, so that a reader of a place finds no lower one
-- later. The time of an entry has no such order, because a transaction that began earlier may commit later. The lock is the last one of a
-- transaction. Only the revocation of keys of several tenants takes it for more than one, and one such transaction runs at a time.
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
