-- What each tenant used by day (UTC). A tenant's rows end with it.
CREATE TABLE resource_uses (
    tenant          text NOT NULL,
    day             date NOT NULL,
    -- CPU time of all processes.
    cpu_micros      bigint NOT NULL,
    -- Bytes of records that were read from and written to Kafka, before compression and without replicas.
    kafka_bytes     bigint NOT NULL,
    object_requests bigint NOT NULL,
    -- Bytes to and from object storage.
    object_bytes    bigint NOT NULL,
    -- Reports and events that were stored.
    stored          bigint NOT NULL,
    PRIMARY KEY (tenant, day)
);
CREATE INDEX resource_uses_day ON resource_uses (day);
SELECT unslide_protect('resource_uses', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('resource_uses', 'tenant, day', 'day');

-- The rest of what the processes used: what no tenant caused, or what could not be told.
CREATE TABLE shared_resource_uses (
    day             date PRIMARY KEY,
    cpu_micros      bigint NOT NULL,
    kafka_bytes     bigint NOT NULL,
    object_requests bigint NOT NULL,
    object_bytes    bigint NOT NULL,
    stored          bigint NOT NULL
);

-- The last statement of each symbolizer that counts, so that a replay of the ledger counts none twice.
CREATE TABLE resource_use_statements (
    worker text PRIMARY KEY,
    at     timestamptz NOT NULL
);

-- Adds what a process used up to a moment. A symbolizer names itself: a statement that is no newer than its last one changes nothing.
-- What is used for a tenant that is deleted or unknown, or that another cell may be serving, counts as shared. The transaction goes on
-- without a tenant.
CREATE FUNCTION unslide_add_resource_uses(by_worker text, until timestamptz, uses jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    on_day date := (until AT TIME ZONE 'UTC')::date;
    who text;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true), set_config('unslide.tenant', '', true);
    IF by_worker IS NOT NULL THEN
        INSERT INTO resource_use_statements AS s (worker, at) VALUES (by_worker, until)
        ON CONFLICT (worker) DO UPDATE SET at = EXCLUDED.at WHERE s.at < EXCLUDED.at;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        DELETE FROM resource_use_statements s WHERE s.at < until - interval '60 days';
    END IF;
    FOR who IN SELECT DISTINCT u.tenant FROM jsonb_populate_recordset(NULL::resource_uses, uses) u
               WHERE u.tenant IS NOT NULL ORDER BY 1 LOOP
        -- As in unslide_refuse_deleted.
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('tenant ' || who, 0));
    END LOOP;
    INSERT INTO resource_uses AS r (tenant, day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
    SELECT u.tenant, on_day, u.cpu_micros, u.kafka_bytes, u.object_requests, u.object_bytes, u.stored
    FROM jsonb_populate_recordset(NULL::resource_uses, uses) u JOIN tenants t ON t.slug = u.tenant AND t.state <> 'deleted'
    WHERE u.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY u.tenant
    ON CONFLICT (tenant, day) DO UPDATE SET
        cpu_micros = r.cpu_micros + EXCLUDED.cpu_micros, kafka_bytes = r.kafka_bytes + EXCLUDED.kafka_bytes,
        object_requests = r.object_requests + EXCLUDED.object_requests, object_bytes = r.object_bytes + EXCLUDED.object_bytes,
        stored = r.stored + EXCLUDED.stored;
    INSERT INTO shared_resource_uses AS r (day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
    SELECT on_day, sum(u.cpu_micros), sum(u.kafka_bytes), sum(u.object_requests), sum(u.object_bytes), sum(u.stored)
    FROM jsonb_populate_recordset(NULL::resource_uses, uses) u
    WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = u.tenant AND t.state <> 'deleted'
                        AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere))
    HAVING count(*) > 0
    ON CONFLICT (day) DO UPDATE SET
        cpu_micros = r.cpu_micros + EXCLUDED.cpu_micros, kafka_bytes = r.kafka_bytes + EXCLUDED.kafka_bytes,
        object_requests = r.object_requests + EXCLUDED.object_requests, object_bytes = r.object_bytes + EXCLUDED.object_bytes,
        stored = r.stored + EXCLUDED.stored;
END $$;

-- What was used by tenant and day, the newest day first, then by tenant from the one after `after_tenant` on that day on. The row without
-- a tenant is the rest of its day, and the last of it. With a wanted tenant only that one's.
CREATE FUNCTION unslide_resource_uses(
    from_day date, to_day date, wanted text, after_day date, after_tenant text, how_many integer)
RETURNS TABLE (tenant text, day date, cpu_micros bigint, kafka_bytes bigint, object_requests bigint, object_bytes bigint, stored bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT u.* FROM (
        SELECT r.tenant, r.day, r.cpu_micros, r.kafka_bytes, r.object_requests, r.object_bytes, r.stored
        FROM resource_uses r
        UNION ALL
        SELECT NULL, s.day, s.cpu_micros, s.kafka_bytes, s.object_requests, s.object_bytes, s.stored
        FROM shared_resource_uses s) u
    WHERE u.day BETWEEN from_day AND to_day AND (wanted IS NULL OR u.tenant = wanted)
      AND (after_day IS NULL OR u.day < after_day
           OR u.day = after_day AND coalesce(u.tenant, '~') COLLATE "C" > coalesce(after_tenant, '~') COLLATE "C")
    ORDER BY u.day DESC, coalesce(u.tenant, '~') COLLATE "C"
    LIMIT how_many
$$;

-- What was used in days: a row for the tenants with the most CPU time, one for the other tenants together, and one for the rest.
CREATE FUNCTION unslide_resource_use_sums(from_day date, to_day date, how_many integer)
RETURNS TABLE (
    kind text, tenant text, tenants bigint,
    cpu_micros bigint, kafka_bytes bigint, object_requests bigint, object_bytes bigint, stored bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH sums AS (
        SELECT r.tenant, sum(r.cpu_micros)::bigint AS cpu_micros, sum(r.kafka_bytes)::bigint AS kafka_bytes,
               sum(r.object_requests)::bigint AS object_requests, sum(r.object_bytes)::bigint AS object_bytes,
               sum(r.stored)::bigint AS stored, row_number() OVER (ORDER BY sum(r.cpu_micros) DESC, r.tenant) AS rank
        FROM resource_uses r WHERE r.day BETWEEN from_day AND to_day GROUP BY r.tenant)
    SELECT 'tenant', s.tenant, 1::bigint, s.cpu_micros, s.kafka_bytes, s.object_requests, s.object_bytes, s.stored
    FROM sums s WHERE s.rank <= how_many
    UNION ALL
    SELECT 'others', NULL, count(*), sum(s.cpu_micros)::bigint, sum(s.kafka_bytes)::bigint, sum(s.object_requests)::bigint,
           sum(s.object_bytes)::bigint, sum(s.stored)::bigint
    FROM sums s WHERE s.rank > how_many HAVING count(*) > 0
    UNION ALL
    SELECT 'rest', NULL, 0, sum(s.cpu_micros)::bigint, sum(s.kafka_bytes)::bigint, sum(s.object_requests)::bigint,
           sum(s.object_bytes)::bigint, sum(s.stored)::bigint
    FROM shared_resource_uses s WHERE s.day BETWEEN from_day AND to_day HAVING count(*) > 0
$$;

-- The bytes of each tenant that is not deleted, summed over columns of tables. The tables that count against the limit on symbols
-- say which column: it has to be a bigint of a table with rows of tenants.
CREATE FUNCTION unslide_stored_bytes(tables text[], size_columns text[]) RETURNS TABLE (tenant text, bytes bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    sums text;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    SELECT string_agg(format('(SELECT coalesce(sum(f.%I), 0)::bigint FROM %s f WHERE f.tenant = t.slug)', s.attname, c.oid::regclass),
                      ' + ')
    INTO sums
    FROM unnest(tables, size_columns) AS w (name, size_column)
    JOIN pg_class c ON c.relname = w.name AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
    JOIN pg_attribute s ON s.attrelid = c.oid AND s.attname = w.size_column AND s.atttypid = 'bigint'::regtype
    JOIN pg_attribute o ON o.attrelid = c.oid AND o.attname = 'tenant';
    RETURN QUERY EXECUTE format('SELECT t.slug, %s FROM public.tenants t WHERE t.state <> ''deleted''', coalesce(sums, '0::bigint'));
END $$;

-- The figures of each tenant that is not deleted, one row a tenant. Every figure is read through an index that begins with
-- the tenant, and none from `reports`: the cost grows with tenants and the hours of their apps.
CREATE FUNCTION unslide_tenant_figures(at timestamptz)
RETURNS TABLE (slug text, name text, state text, limits jsonb, reports_last_hour bigint, reports_last_day bigint,
               deferred_records bigint, pending_bytes bigint, uploads_waiting bigint, keys bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug, t.name, t.state, t.limits, h.last_hour, h.last_day,
           (SELECT coalesce(sum(d.records), 0)::bigint FROM deferred_ranges d WHERE d.tenant = t.slug),
           u.bytes + (SELECT coalesce(sum(p.size), 0)::bigint FROM partial_uploads p WHERE p.tenant = t.slug),
           u.uploads,
           (SELECT count(*) FROM keys k WHERE k.tenant = t.slug AND k.kind = 'api' AND k.revoked_at IS NULL
                AND (k.expires_at IS NULL OR k.expires_at > at))
    FROM tenants t
    -- Counts are by the hour. Of the hour in which the period begins, the part that lies in the period counts.
    CROSS JOIN LATERAL (
        SELECT coalesce(ceil(sum(c.reports * least(1, extract(epoch FROM c.hour - (at - interval '2 hours')) / 3600))
                             FILTER (WHERE c.hour > at - interval '2 hours')), 0)::bigint AS last_hour,
               coalesce(ceil(sum(c.reports * least(1, extract(epoch FROM c.hour - (at - interval '25 hours')) / 3600))),
                        0)::bigint AS last_day
        FROM app_hours c WHERE c.tenant = t.slug AND c.hour > at - interval '25 hours' AND c.hour <= at) h
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(w.size), 0)::bigint AS bytes, count(*) AS uploads
        FROM uploads w WHERE w.tenant = t.slug AND w.status IN ('queued', 'building')) u
    WHERE t.state <> 'deleted'
$$;
