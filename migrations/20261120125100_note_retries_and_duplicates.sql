-- A report with symbols that are there and could not be fetched is asked for again by the clock.
ALTER TABLE report_keys
    ADD COLUMN retry_at timestamptz,
    -- How often it was asked for since then.
    ADD COLUMN retries integer NOT NULL DEFAULT 0,
    -- [[debug id, generation, system], …] of what could not be fetched.
    ADD COLUMN retry_needs jsonb,
    -- The input record that brought it first; null where an earlier program stored it.
    ADD COLUMN origin_topic text,
    ADD COLUMN origin_partition integer,
    ADD COLUMN origin_offset bigint,
    ADD COLUMN origin_index integer;
CREATE INDEX report_keys_retry ON report_keys (retry_at) WHERE retry_at IS NOT NULL;

CREATE FUNCTION unslide_retries_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.retry_at <= at AND k.deleted_at IS NULL
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
    ORDER BY k.retry_at LIMIT how_many
$$;

-- Further arrivals of a report that is there: other input records with the same bytes. Kept as long as the report's key.
CREATE TABLE report_duplicates (
    tenant           text NOT NULL,
    report_id        uuid NOT NULL,
    variant          integer NOT NULL,
    origin_topic     text NOT NULL,
    origin_partition integer NOT NULL,
    origin_offset    bigint NOT NULL,
    -- Which report of the record, where it held several.
    origin_index     integer NOT NULL,
    -- The broker's time of this arrival.
    seen_at          timestamptz NOT NULL,
    -- The report's own, by which both are forgotten.
    received_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, report_id, variant, origin_topic, origin_partition, origin_offset, origin_index)
);
CREATE INDEX report_duplicates_age ON report_duplicates (received_at);
SELECT unslide_protect('report_duplicates', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE FUNCTION unslide_report_duplicates_purge(before timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (DELETE FROM report_duplicates WHERE received_at < before RETURNING 1) SELECT count(*) FROM gone
$$;

-- Uploads whose bytes never came to their end.
CREATE FUNCTION unslide_uploads_stuck(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT u.tenant, u.id FROM uploads u WHERE u.status = 'receiving' AND u.created_at < before
    ORDER BY u.created_at LIMIT how_many
$$;
CREATE INDEX uploads_receiving ON uploads (created_at) WHERE status = 'receiving';

REVOKE ALL ON FUNCTION unslide_retries_due(timestamptz, integer), unslide_report_duplicates_purge(timestamptz),
    unslide_uploads_stuck(timestamptz, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_retries_due(timestamptz, integer), unslide_report_duplicates_purge(timestamptz),
    unslide_uploads_stuck(timestamptz, integer) TO unslide_service;
