-- Bodies of reports move from report_bodies into segments: objects in object storage, many reports an object.
-- A body is in one of two places. Where there is a row in both, the one in report_bodies is newer.

-- When the body was stored; null where a program wrote it that knows no segments.
ALTER TABLE report_bodies ADD COLUMN stored_at timestamptz;

-- Segments that are being written (intent) or that frames are read from (live).
CREATE TABLE segments (
    tenant      text NOT NULL,
    id          uuid NOT NULL,
    -- The day of arrival of its reports, in UTC.
    day         date NOT NULL,
    key         text NOT NULL,
    state       text NOT NULL CHECK (state IN ('intent', 'live')),
    bytes       bigint NOT NULL DEFAULT 0,
    frames      integer NOT NULL DEFAULT 0,
    frame_bytes bigint NOT NULL DEFAULT 0,
    -- Frames that no report refers to any more.
    dead_frames integer NOT NULL DEFAULT 0,
    dead_bytes  bigint NOT NULL DEFAULT 0,
    -- Set where a deleted report lies in it: by then it is to be written anew.
    rewrite_by  timestamptz,
    -- Set where a frame could not be read: not tried again before.
    rest_until  timestamptz,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
-- One writer a tenant and day. What it holds is worth nothing once the row is gone: that is the fence.
CREATE UNIQUE INDEX segments_intent ON segments (tenant, day) WHERE state = 'intent';
CREATE INDEX segments_day ON segments (tenant, day);
SELECT unslide_protect('segments', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Where in a segment a report's body lies.
CREATE TABLE report_frames (
    tenant      text NOT NULL,
    received_at timestamptz NOT NULL,
    report_id   uuid NOT NULL,
    variant     integer NOT NULL,
    revision    integer NOT NULL,
    size        bigint NOT NULL,
    segment     uuid NOT NULL,
    at_offset   bigint NOT NULL,
    length      bigint NOT NULL,
    PRIMARY KEY (tenant, received_at, report_id, variant)
) PARTITION BY RANGE (received_at);
CREATE INDEX report_frames_segment ON report_frames (tenant, segment, at_offset);
SELECT unslide_protect('report_frames', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Frames that died, until they are added to their segment's figures: a row each, so that nobody waits for another.
CREATE TABLE dead_frames (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text NOT NULL,
    segment uuid NOT NULL,
    bytes   bigint NOT NULL,
    -- The report was deleted: the bytes have to go.
    erase   boolean NOT NULL,
    at      timestamptz NOT NULL
);
SELECT unslide_protect('dead_frames', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Bodies that the symbolizer kept apart because they were too large for the topic, for as long as their report is kept.
CREATE TABLE apart_bodies (
    tenant      text NOT NULL,
    key         text NOT NULL,
    received_at timestamptz NOT NULL,
    report_id   uuid NOT NULL,
    variant     integer NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX apart_bodies_age ON apart_bodies (tenant, received_at);
CREATE INDEX apart_bodies_report ON apart_bodies (tenant, report_id);
SELECT unslide_protect('apart_bodies', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Objects that nothing refers to any more. They are deleted once nobody can still be reading them.
CREATE TABLE condemned_objects (
    tenant       text NOT NULL,
    key          text NOT NULL,
    condemned_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX condemned_objects_age ON condemned_objects (condemned_at);
SELECT unslide_protect('condemned_objects', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- What lies in report_bodies, by tenant and day. Lengths are known without reading the bodies.
CREATE FUNCTION unslide_bodies_pending()
RETURNS TABLE (tenant text, day date, bodies bigint, bytes bigint, largest bigint, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT b.tenant, (b.received_at AT TIME ZONE 'UTC')::date, count(*), sum(octet_length(b.body))::bigint,
           max(octet_length(b.body))::bigint, min(coalesce(b.stored_at, b.received_at))
    FROM report_bodies b GROUP BY 1, 2 ORDER BY 6
$$;

-- Gives up the intents of writers that have died: what they may have written is condemned.
CREATE FUNCTION unslide_segments_abandon(before timestamptz, at timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (
        DELETE FROM segments s WHERE s.state = 'intent' AND s.created_at < before RETURNING s.tenant, s.key),
    condemned AS (
        INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT g.tenant, g.key, at FROM gone g
        ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*) FROM condemned
$$;

-- Adds dead frames to the figures of their segments; says how many.
CREATE FUNCTION unslide_dead_frames_count(erase_seconds bigint) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (DELETE FROM dead_frames RETURNING *),
    sums AS (
        -- Without bytes: a mark that a frame which was dead from the start has to go.
        SELECT g.tenant, g.segment, count(*) FILTER (WHERE g.bytes > 0)::integer AS frames, sum(g.bytes)::bigint AS bytes,
               min(g.at) FILTER (WHERE g.erase) + make_interval(secs => erase_seconds) AS rewrite_by
        FROM gone g GROUP BY 1, 2),
    counted AS (
        UPDATE segments s
        SET dead_frames = s.dead_frames + n.frames, dead_bytes = s.dead_bytes + n.bytes,
            rewrite_by = least(s.rewrite_by, n.rewrite_by)
        FROM sums n WHERE s.tenant = n.tenant AND s.id = n.segment RETURNING 1)
    SELECT (SELECT count(*) FROM gone WHERE bytes > 0) + 0 * (SELECT count(*) FROM counted)
$$;

-- Tenants and days with segments that are to be written anew: mostly dead, with a deleted report, or too many small ones.
CREATE FUNCTION unslide_segments_due(at timestamptz, small_bytes bigint, small_many integer)
RETURNS TABLE (tenant text, day date)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT s.tenant, s.day FROM segments s
    WHERE s.state = 'live' AND (s.rest_until IS NULL OR s.rest_until <= at)
    GROUP BY 1, 2
    HAVING bool_or(s.dead_bytes * 2 > s.frame_bytes) OR bool_or(coalesce(s.rewrite_by <= at, false))
        OR count(*) FILTER (WHERE s.bytes < small_bytes) >= small_many
    ORDER BY min(s.rewrite_by) NULLS LAST, 1, 2
$$;

CREATE FUNCTION unslide_condemned_due(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, key text, condemned_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT c.tenant, c.key, c.condemned_at FROM condemned_objects c
    WHERE c.condemned_at < before ORDER BY c.condemned_at, c.tenant, c.key LIMIT how_many
$$;

-- The most days that any tenant's reports are kept.
CREATE FUNCTION unslide_retention_longest(usual integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT greatest(usual, (SELECT max(least((t.limits ->> 'retention_days')::numeric, 100000)::integer)
                            FROM tenants t WHERE t.state <> 'deleted'))
$$;

REVOKE ALL ON FUNCTION unslide_bodies_pending(), unslide_segments_abandon(timestamptz, timestamptz),
    unslide_dead_frames_count(bigint), unslide_segments_due(timestamptz, bigint, integer),
    unslide_condemned_due(timestamptz, integer), unslide_retention_longest(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_bodies_pending(), unslide_segments_abandon(timestamptz, timestamptz),
    unslide_dead_frames_count(bigint), unslide_segments_due(timestamptz, bigint, integer),
    unslide_condemned_due(timestamptz, integer), unslide_retention_longest(integer) TO unslide_service;

-- The same two functions with one table more.
CREATE OR REPLACE FUNCTION unslide_partitions_ensure(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent text;
    child text;
    this_day date;
    made integer := 0;
BEGIN
    IF last_day - first_day > 4000 THEN
        RAISE EXCEPTION 'too many days: % to %', first_day, last_day;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOREACH parent IN ARRAY ARRAY['reports', 'report_bodies', 'report_frames', 'waits'] LOOP
        this_day := first_day;
        WHILE this_day <= last_day LOOP
            child := parent || '_' || to_char(this_day, 'YYYYMMDD');
            IF to_regclass('public.' || child) IS NULL THEN
                EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL)', child, parent);
                EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', child);
                EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                               parent, child, this_day::timestamptz, (this_day + 1)::timestamptz);
                made := made + 1;
            END IF;
            this_day := this_day + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

CREATE OR REPLACE FUNCTION unslide_partitions_drop(before date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    child record;
    dropped integer := 0;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOR child IN
        SELECT c.oid::regclass AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('public.reports'::regclass, 'public.report_bodies'::regclass,
                              'public.report_frames'::regclass, 'public.waits'::regclass)
          AND c.relname ~ '_[0-9]{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < before
    LOOP
        EXECUTE format('DROP TABLE %s', child.name);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM system_waits WHERE day < before;
    RETURN dropped;
END $$;

-- The days that are there already.
DO $$
DECLARE
    this_day date;
BEGIN
    FOR this_day IN
        SELECT to_date(right(c.relname, 8), 'YYYYMMDD')
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'public.reports'::regclass
    LOOP
        PERFORM unslide_partitions_ensure(this_day, this_day);
    END LOOP;
END $$;
