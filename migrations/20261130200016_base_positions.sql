-- How far the indexers have read: part of the transaction that stores what was read.
CREATE TABLE positions (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    -- The broker's id of the topic, so that a topic that was created again under its old name is noticed.
    topic_id    text NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE ON positions TO unslide_service;

-- Which indexer reads a partition. It only spares work: what keeps two apart is the position.
CREATE TABLE partition_leases (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    owner       text NOT NULL,
    lease_until timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON partition_leases TO unslide_service;

-- Records of a tenant that the indexer has put off: the tenant used more than its share, or the database does not know it, as
-- after a restore. Their offsets in a partition. A range is written in the transaction that moves the position over its records,
-- and gets shorter in the transaction that stores them. While it is there, all of the tenant's records between its ends wait.
CREATE TABLE deferred_ranges (
    tenant      text NOT NULL,
    topic       text NOT NULL,
    -- The broker's id of the topic: offsets of another topic under the same name mean nothing.
    topic_id    text NOT NULL,
    partition   integer NOT NULL,
    -- The first offset that was not read again, and one after the last record that waits.
    from_offset bigint NOT NULL CHECK (from_offset >= 0),
    to_offset   bigint NOT NULL,
    -- How many records of the tenant wait. Others lie between them.
    records     bigint NOT NULL,
    -- No record that waits is older.
    oldest_at   timestamptz NOT NULL,
    CHECK (from_offset < to_offset),
    PRIMARY KEY (topic_id, partition, tenant)
);
CREATE INDEX deferred_ranges_tenant ON deferred_ranges (tenant);
SELECT unslide_protect('deferred_ranges', 'tenant', 'SELECT');
-- The erasure of a tenant that has moved leaves its ranges: their records are passed on, which removes them.
DO $$
BEGIN
    EXECUTE format(
        'CREATE POLICY ranges_of_moved_tenants ON deferred_ranges AS RESTRICTIVE FOR DELETE TO unslide_service
             USING (current_user = %L
                    OR NOT (SELECT EXISTS (SELECT FROM public.tenants t
                                           WHERE t.slug = current_setting(''unslide.tenant'', true) AND t.place = ''moved'')))',
        current_user);
END $$;

-- The ranges of all tenants in these topics: for the indexer, which stores them.
CREATE FUNCTION unslide_deferred_ranges(wanted_topics text[]) RETURNS SETOF deferred_ranges
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT r.* FROM deferred_ranges r WHERE r.topic = ANY (wanted_topics)
    ORDER BY r.topic, r.topic_id, r.partition, r.tenant
$$;

-- As unslide_deferred_ranges, with the place of each tenant: for the indexer, which stores records here or passes them on to the topics
-- with the prefix `moved_to`. A tenant that does not exist counts as here.
CREATE FUNCTION unslide_located_ranges(wanted_topics text[])
RETURNS TABLE (
    tenant text, topic text, topic_id text, partition integer, from_offset bigint, to_offset bigint, records bigint,
    oldest_at timestamptz, place text, moved_to text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT r.tenant, r.topic, r.topic_id, r.partition, r.from_offset, r.to_offset, r.records, r.oldest_at,
           CASE WHEN t.slug IS NULL OR t.place = 'leaving' AND t.frozen_until <= clock_timestamp() THEN 'here' ELSE t.place END,
           t.moved_to
    FROM deferred_ranges r LEFT JOIN tenants t ON t.slug = r.tenant
    WHERE r.topic = ANY (wanted_topics)
    ORDER BY r.topic, r.topic_id, r.partition, r.tenant
$$;

-- Adds records to what waits of their tenants, which need not exist. Nothing waits of a deleted tenant, except of one that another cell
-- serves: its records are passed on to there. It waits for no move. The transaction goes on without a tenant.
CREATE FUNCTION unslide_defer(more jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    who text;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true), set_config('unslide.tenant', '', true);
    FOR who IN SELECT DISTINCT m.tenant FROM jsonb_populate_recordset(NULL::deferred_ranges, more) m ORDER BY 1 LOOP
        -- As in unslide_refuse_deleted, without a wait: a range that is added beside a deletion ends with the next look at it.
        PERFORM pg_try_advisory_xact_lock_shared(hashtextextended('tenant ' || who, 0));
    END LOOP;
    INSERT INTO deferred_ranges AS r
        (tenant, topic, topic_id, partition, from_offset, to_offset, records, oldest_at)
    SELECT m.tenant, m.topic, m.topic_id, m.partition, m.from_offset, m.to_offset, m.records, m.oldest_at
    FROM jsonb_populate_recordset(NULL::deferred_ranges, more) m
    WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = m.tenant AND t.state = 'deleted' AND t.place <> 'moved')
    ORDER BY m.topic_id, m.partition, m.tenant
    ON CONFLICT (topic_id, partition, tenant) DO UPDATE SET
        from_offset = least(r.from_offset, EXCLUDED.from_offset),
        to_offset = greatest(r.to_offset, EXCLUDED.to_offset),
        records = r.records + EXCLUDED.records,
        oldest_at = least(r.oldest_at, EXCLUDED.oldest_at);
END $$;

-- Removes stored records from ranges: each from `from_offset`, the required begin, to `next_offset`. Closes ranges that
-- end there. False, and nothing is done, if one begins somewhere else. The transaction goes on without a tenant.
CREATE FUNCTION unslide_shorten_deferred(done jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true), set_config('unslide.tenant', '', true);
    -- The locks keep the ends in place.
    PERFORM FROM deferred_ranges r
    JOIN jsonb_to_recordset(done) AS d (tenant text, topic_id text, partition integer, from_offset bigint)
        ON d.topic_id = r.topic_id AND d.partition = r.partition AND d.tenant = r.tenant
    WHERE r.from_offset = d.from_offset
    ORDER BY r.topic_id, r.partition, r.tenant FOR UPDATE OF r;
    GET DIAGNOSTICS found = ROW_COUNT;
    IF found <> jsonb_array_length(done) THEN
        RETURN false;
    END IF;
    DELETE FROM deferred_ranges r
    USING jsonb_to_recordset(done) AS d (tenant text, topic_id text, partition integer, next_offset bigint)
    WHERE d.topic_id = r.topic_id AND d.partition = r.partition AND d.tenant = r.tenant
      AND r.to_offset <= d.next_offset;
    UPDATE deferred_ranges r
    SET from_offset = d.next_offset, records = greatest(r.records - d.stored, 1),
        oldest_at = greatest(r.oldest_at, d.oldest_at)
    FROM jsonb_to_recordset(done) AS d
        (tenant text, topic_id text, partition integer, next_offset bigint, stored bigint, oldest_at timestamptz)
    WHERE d.topic_id = r.topic_id AND d.partition = r.partition AND d.tenant = r.tenant;
    RETURN true;
END $$;

-- The offset up to which each partition is stored: its position, or the first deferred record before it. Records of a tenant that does
-- not exist, or that another cell may be serving, do not count.
CREATE FUNCTION unslide_stored_positions() RETURNS SETOF positions
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT p.topic, p.partition, p.topic_id, least(p.next_offset, min(r.from_offset)), p.updated_at
    FROM positions p LEFT JOIN deferred_ranges r ON r.topic_id = p.topic_id AND r.partition = p.partition
        AND EXISTS (SELECT FROM tenants t WHERE t.slug = r.tenant) AND NOT unslide_is_elsewhere(r.tenant)
    GROUP BY p.topic, p.partition
    ORDER BY p.topic, p.partition
$$;
