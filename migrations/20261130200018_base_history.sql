-- Rows of reports that move to ClickHouse. A row is in `reports`, or in ClickHouse: then its key has the version of it there.

-- The intent of one INSERT at ClickHouse. One a tenant and day. Without the row the move does not end: that is the fence.
CREATE TABLE history_moves (
    tenant   text NOT NULL,
    day      date NOT NULL,
    -- The version of the rows that this move inserts. No other move has it, and a later one has a greater one.
    version  integer NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- By this ClickHouse knows an INSERT that is sent twice.
    token    uuid NOT NULL,
    begun_at timestamptz NOT NULL,
    -- [{received_at, report_id, variant}, …] of the rows.
    places   jsonb NOT NULL,
    PRIMARY KEY (tenant, day)
);
SELECT unslide_protect('history_moves', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Rows at ClickHouse that no key names any more. Until they are deleted there, no reader shows them.
CREATE TABLE history_deletions (
    tenant      text NOT NULL,
    number      bigint GENERATED ALWAYS AS IDENTITY,
    received_at timestamptz NOT NULL,
    report_id   uuid NOT NULL,
    variant     integer NOT NULL,
    -- Rows of this version and of earlier ones are deleted. A later move of the report stays.
    version     integer NOT NULL,
    queued_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, number)
)
-- Rows come and go all the time.
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
      autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);
CREATE INDEX history_deletions_age ON history_deletions (queued_at);
SELECT unslide_protect('history_deletions', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Tenants with rows at ClickHouse.
CREATE TABLE history_tenants (
    tenant         text PRIMARY KEY,
    -- Grows with each move that ends: a reader that finds another number than before its look into ClickHouse looks again.
    ended_moves    bigint NOT NULL,
    -- No row that was moved arrived later.
    newest_at      timestamptz NOT NULL,
    -- Days before this one are deleted at ClickHouse.
    expired_before date
);
SELECT unslide_protect('history_tenants', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The rows of reports that documents from ClickHouse hold. A migration that adds a column to `reports` that must not be NULL
-- replaces this function, so that earlier documents have a value for it.
CREATE FUNCTION unslide_moved_reports(documents jsonb) RETURNS SETOF reports
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT * FROM jsonb_populate_recordset(NULL::reports, documents)
$$;
REVOKE ALL ON FUNCTION unslide_moved_reports FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_moved_reports TO unslide_service;

-- Tenants and days before `ends` with rows that were changed last before `changed_before`, the oldest day first. Without tenants that
-- another cell may be serving, and those that are on their way to one: a move copies rows of PostgreSQL.
CREATE FUNCTION unslide_history_due(ends timestamptz, changed_before timestamptz, how_many integer)
RETURNS TABLE (tenant text, day date, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT r.tenant, (r.received_at AT TIME ZONE 'UTC')::date, min(r.stored_at)
    FROM reports r WHERE r.received_at < ends AND r.stored_at < changed_before
    GROUP BY 1, 2
    HAVING r.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
       AND NOT EXISTS (SELECT FROM moving_rows m WHERE m.slug = r.tenant)
    ORDER BY 2, 1 LIMIT how_many
$$;

-- Abandons the moves of processes that have died: the rows that they may have inserted are deleted.
CREATE FUNCTION unslide_history_moves_abandon(before timestamptz, at timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (
        DELETE FROM history_moves m WHERE m.begun_at < before RETURNING m.tenant, m.version, m.places),
    queued AS (
        INSERT INTO history_deletions (tenant, received_at, report_id, variant, version, queued_at)
        SELECT g.tenant, p.received_at, p.report_id, p.variant, g.version, at
        FROM gone g CROSS JOIN LATERAL jsonb_to_recordset(g.places)
             AS p (received_at timestamptz, report_id uuid, variant integer))
    SELECT count(*) FROM gone
$$;

-- Tenants with rows to delete at ClickHouse, those that have waited longest first.
CREATE FUNCTION unslide_history_deletions_due(how_many integer) RETURNS TABLE (tenant text, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH RECURSIVE waiting AS (
        (SELECT d.tenant, d.queued_at FROM history_deletions d ORDER BY d.tenant, d.number LIMIT 1)
        UNION ALL
        SELECT n.tenant, n.queued_at FROM waiting w CROSS JOIN LATERAL (
            SELECT d.tenant, d.queued_at FROM history_deletions d WHERE d.tenant > w.tenant
            ORDER BY d.tenant, d.number LIMIT 1) n)
    SELECT w.tenant, w.queued_at FROM waiting w ORDER BY w.queued_at LIMIT how_many
$$;

-- Tenants with rows at ClickHouse, after one of them in the order of their names.
CREATE FUNCTION unslide_history_tenants(after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT h.tenant FROM history_tenants h WHERE h.tenant > after ORDER BY h.tenant LIMIT how_many
$$;

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
