-- Drops day partitions of reports, bodies and frames before a day that have no row, at most `how_many`: their reports are in ClickHouse.
-- A report that comes back has them made again. It gives up as `unslide_partitions_drop` does.
CREATE FUNCTION unslide_partitions_drop_empty(before date, how_many integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    child record;
    filled boolean;
    dropped integer := 0;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOR child IN
        SELECT c.oid::regclass AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('public.reports'::regclass, 'public.report_bodies'::regclass, 'public.report_frames'::regclass)
          AND c.relname ~ '_[0-9]{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < before
        ORDER BY right(c.relname, 8)
    LOOP
        EXIT WHEN dropped >= how_many;
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', child.name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', child.name);
        -- A row may have come while it waited for the lock.
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', child.name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('DROP TABLE %s', child.name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;
REVOKE ALL ON FUNCTION unslide_partitions_drop_empty FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_partitions_drop_empty TO unslide_service;
