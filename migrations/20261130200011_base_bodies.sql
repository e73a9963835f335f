-- A report's body is in one of two places: in report_bodies at first, then in a segment, which is an object in object
-- storage with many bodies. If there is a row in both, the one in report_bodies is newer.

-- The latest revision's bytes: an lz4 block behind its length.
CREATE TABLE report_bodies (
    tenant      text NOT NULL,
    received_at timestamptz NOT NULL,
    report_id   uuid NOT NULL,
    variant     integer NOT NULL,
    revision    integer NOT NULL,
    size        bigint NOT NULL,
    body        bytea NOT NULL,
    stored_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, received_at, report_id, variant)
) PARTITION BY RANGE (received_at);
-- It is compressed already.
ALTER TABLE report_bodies ALTER COLUMN body SET STORAGE EXTERNAL;
SELECT unslide_protect('report_bodies', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Segments that are being written (intent) or that frames are read from (live). A segment is written once.
CREATE TABLE segments (
    tenant     text NOT NULL,
    id         uuid NOT NULL,
    -- The day of arrival of its reports, in UTC.
    day        date NOT NULL,
    key        text NOT NULL,
    state      text NOT NULL CHECK (state IN ('intent', 'live')),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
-- One writer a tenant and day. Without the row, readers ignore the segment: that is the fence.
CREATE UNIQUE INDEX segments_intent ON segments (tenant, day) WHERE state = 'intent';
CREATE INDEX segments_day ON segments (tenant, day);
SELECT unslide_protect('segments', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Position of a report's body in a segment, and its encryption key. The key is stored nowhere else: without this row
-- the body is unreadable.
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
    body_key    bytea NOT NULL CHECK (length(body_key) = 32),
    PRIMARY KEY (tenant, received_at, report_id, variant)
) PARTITION BY RANGE (received_at);
-- Whether a segment has reports. Few bytes a row: rows of one segment share an entry.
CREATE INDEX report_frames_segment ON report_frames (tenant, segment);
SELECT unslide_protect('report_frames', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Objects that nothing refers to any more. They are deleted once no reader can still be at them.
CREATE TABLE condemned_objects (
    tenant       text NOT NULL,
    key          text NOT NULL,
    condemned_at timestamptz NOT NULL,
    -- An object that could not be deleted waits for its next try, and holds up no other.
    retry_at     timestamptz,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX condemned_objects_age ON condemned_objects (condemned_at);
CREATE INDEX condemned_objects_failed ON condemned_objects (retry_at) WHERE retry_at IS NOT NULL;
SELECT unslide_protect('condemned_objects', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Bodies in report_bodies, by tenant and day. Lengths are known without reading the bodies.
CREATE FUNCTION unslide_bodies_pending()
RETURNS TABLE (tenant text, day date, bodies bigint, bytes bigint, largest bigint, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT b.tenant, (b.received_at AT TIME ZONE 'UTC')::date, count(*), sum(octet_length(b.body))::bigint,
           max(octet_length(b.body))::bigint, min(b.stored_at)
    FROM report_bodies b WHERE b.tenant NOT IN (SELECT slug FROM tenants_elsewhere) GROUP BY 1, 2 ORDER BY 6
$$;

-- Abandons the intents of writers that have died: what they may have written is condemned.
CREATE FUNCTION unslide_segments_abandon(before timestamptz, at timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (
        DELETE FROM segments s
        WHERE s.state = 'intent' AND s.created_at < before AND s.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
        RETURNING s.tenant, s.key),
    condemned AS (
        INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT g.tenant, g.key, at FROM gone g
        ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*) FROM condemned
$$;

-- Condemned objects, without those that wait for their next try.
CREATE FUNCTION unslide_condemned_due(before timestamptz, at timestamptz, how_many integer)
RETURNS TABLE (tenant text, key text, condemned_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT c.tenant, c.key, c.condemned_at FROM condemned_objects c
    WHERE c.condemned_at < before AND (c.retry_at IS NULL OR c.retry_at <= at)
      AND c.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY c.condemned_at, c.tenant, c.key LIMIT how_many
$$;

-- The number of objects and files of uploads that could not be deleted when they were due.
CREATE FUNCTION unslide_objects_undeleted() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT (SELECT count(*) FROM condemned_objects c WHERE c.retry_at IS NOT NULL)
         + (SELECT count(*) FROM uploads u WHERE u.file_retry_at IS NOT NULL AND u.file_gone_at IS NULL)
$$;
