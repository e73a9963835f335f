-- Goes on in a tenant for the rest of the transaction, and returns how its records are to be handled here. From here on to the end of the
-- transaction a deletion of the tenant waits, and so does a move that waits for its writers. If one of them waits already, the tenant counts
-- as leaving: records of other tenants must not wait for it. No row if there is no such tenant.
CREATE FUNCTION unslide_enter_tenant(who text) RETURNS TABLE (state text, place text)
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    is_free boolean;
BEGIN
    PERFORM set_config('unslide.tenant', who, true);
    -- As in unslide_refuse_deleted.
    is_free := pg_try_advisory_xact_lock_shared(hashtextextended('tenant ' || who, 0));
    -- A statement of its own: it sees rows that were committed before the lock was taken.
    RETURN QUERY
    SELECT t.state,
           CASE WHEN t.place IN ('moved', 'arriving') THEN t.place
                WHEN NOT is_free OR t.place = 'leaving' AND t.frozen_until > clock_timestamp() THEN 'leaving'
                ELSE 'here' END
    FROM tenants t WHERE t.slug = who;
END $$;
REVOKE ALL ON FUNCTION unslide_enter_tenant FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_enter_tenant TO unslide_service;

-- As before, and records of a deleted tenant wait if another cell serves it: they are passed on to there. It waits for no move.
CREATE OR REPLACE FUNCTION unslide_defer(more jsonb) RETURNS void
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

-- As unslide_deferred_ranges, with the place of each tenant: for the indexer, which stores records here or passes them on to the topics with
-- the prefix `moved_to`. A tenant that does not exist counts as here.
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
REVOKE ALL ON FUNCTION unslide_located_ranges FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_located_ranges TO unslide_service;

-- As before, and records of a tenant that another cell may be serving do not count either.
CREATE OR REPLACE FUNCTION unslide_stored_positions() RETURNS SETOF positions
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT p.topic, p.partition, p.topic_id, least(p.next_offset, min(r.from_offset)), p.updated_at
    FROM positions p LEFT JOIN deferred_ranges r ON r.topic_id = p.topic_id AND r.partition = p.partition
        AND EXISTS (SELECT FROM tenants t WHERE t.slug = r.tenant) AND NOT unslide_is_elsewhere(r.tenant)
    GROUP BY p.topic, p.partition
    ORDER BY p.topic, p.partition
$$;

-- As before, without those of tenants that another cell may serve: its indexers do their replays.
CREATE OR REPLACE FUNCTION unslide_dead_letters_requested(how_many integer) RETURNS SETOF dead_letters
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT l.* FROM dead_letters l
    WHERE l.status = 'requested' AND (l.tenant IS NULL OR NOT unslide_is_elsewhere(l.tenant))
    ORDER BY l.replayed_at LIMIT how_many
$$;

-- As before, without jobs of tenants that another cell may be serving.
CREATE OR REPLACE FUNCTION unslide_jobs_take(
    kinds text[], idle_in text[], worker text, at timestamptz, until timestamptz, how_many integer)
RETURNS SETOF jobs
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH busy AS MATERIALIZED (
        SELECT tenant, count(*) AS running FROM jobs
        WHERE kind = ANY (kinds) AND status = 'running' AND lease_until >= at GROUP BY tenant)
    UPDATE jobs SET status = 'running', attempts = attempts + 1, lease_owner = worker,
                    lease_token = gen_random_uuid(), lease_until = until, updated_at = at
    WHERE id IN (
        SELECT j.id FROM jobs j LEFT JOIN busy b ON b.tenant = j.tenant
        WHERE j.kind = ANY (kinds)
          AND j.tenant NOT IN (SELECT r.tenant FROM jobs r
                               WHERE r.kind = ANY (idle_in) AND r.status = 'running' AND r.lease_until >= at)
          AND (j.kind = 'erase'
               OR NOT EXISTS (SELECT FROM tenants t
                              WHERE t.slug = j.tenant
                                AND (t.state = 'deleted'
                                     OR t.place <> 'here' AND NOT (t.place = 'leaving' AND t.frozen_until <= clock_timestamp()))))
          AND (j.status = 'queued' AND j.run_at <= at
               OR j.status = 'running' AND j.lease_until < at
                  AND (j.attempts <= 6
                       OR j.lease_until < at - least(interval '10 min',
                                                     interval '5 s' * power(2, least(j.attempts - 6, 8)))))
        ORDER BY coalesce(b.running, 0), j.run_at, j.id
        LIMIT how_many
        FOR UPDATE OF j SKIP LOCKED)
    RETURNING *
$$;

-- Those of these tenants that another cell may be serving.
CREATE FUNCTION unslide_elsewhere_tenants(names text[]) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT n FROM unnest(names) n WHERE unslide_is_elsewhere(n)
$$;
REVOKE ALL ON FUNCTION unslide_elsewhere_tenants FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_elsewhere_tenants TO unslide_service;
