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
