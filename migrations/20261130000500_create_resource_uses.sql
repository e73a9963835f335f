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

INSERT INTO purges (target, key, at_column) VALUES ('resource_uses', 'tenant, day', 'day');

-- Adds what a process used up to a moment. A symbolizer names itself: a statement that is no newer than its last one changes nothing.
-- What a deleted or unknown tenant used counts as shared. The transaction goes on without a tenant.
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
    ORDER BY u.tenant
    ON CONFLICT (tenant, day) DO UPDATE SET
        cpu_micros = r.cpu_micros + EXCLUDED.cpu_micros, kafka_bytes = r.kafka_bytes + EXCLUDED.kafka_bytes,
        object_requests = r.object_requests + EXCLUDED.object_requests, object_bytes = r.object_bytes + EXCLUDED.object_bytes,
        stored = r.stored + EXCLUDED.stored;
    INSERT INTO shared_resource_uses AS r (day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
    SELECT on_day, sum(u.cpu_micros), sum(u.kafka_bytes), sum(u.object_requests), sum(u.object_bytes), sum(u.stored)
    FROM jsonb_populate_recordset(NULL::resource_uses, uses) u
    WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = u.tenant AND t.state <> 'deleted')
    HAVING count(*) > 0
    ON CONFLICT (day) DO UPDATE SET
        cpu_micros = r.cpu_micros + EXCLUDED.cpu_micros, kafka_bytes = r.kafka_bytes + EXCLUDED.kafka_bytes,
        object_requests = r.object_requests + EXCLUDED.object_requests, object_bytes = r.object_bytes + EXCLUDED.object_bytes,
        stored = r.stored + EXCLUDED.stored;
END $$;
REVOKE ALL ON FUNCTION unslide_add_resource_uses FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_add_resource_uses TO unslide_service;

-- What was used by tenant and day, the newest day first, then by tenant from the one after `after_tenant` on that day on. The row without a
-- tenant is the rest of its day, and the last of it. With a wanted tenant only that one's.
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
REVOKE ALL ON FUNCTION unslide_resource_uses FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_resource_uses TO unslide_service;

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
REVOKE ALL ON FUNCTION unslide_resource_use_sums FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_resource_use_sums TO unslide_service;
