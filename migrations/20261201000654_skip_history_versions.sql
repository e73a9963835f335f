-- Gives the next move a version above this one. A database that was restored to an earlier moment would give versions again that rows
-- at ClickHouse have, and the greatest version of a row is the one that stays there. Returns false if it would be above already.
CREATE FUNCTION unslide_history_versions_skip(above integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    versions regclass := pg_get_serial_sequence('public.history_moves', 'version');
BEGIN
    -- One process at a time: another one may move rows with the next versions as soon as it has skipped these.
    PERFORM pg_advisory_xact_lock(hashtext('unslide_history_versions'));
    IF above <= coalesce(pg_sequence_last_value(versions), 0) THEN
        RETURN false;
    END IF;
    PERFORM setval(versions, above);
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION unslide_history_versions_skip FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_history_versions_skip TO unslide_service;
