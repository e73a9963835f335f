-- Files that count against a tenant's limit on symbols: of symbols, captures, chunks that no file is made of yet, and bundles of
-- source files.
CREATE VIEW counted_files WITH (security_invoker = true) AS
    SELECT o.tenant, o.size FROM objects o
    UNION ALL
    SELECT c.tenant, c.size FROM captures c
    UNION ALL
    SELECT u.tenant, u.size FROM uploader_chunks u WHERE u.counted
    UNION ALL
    SELECT b.tenant, b.size FROM source_bundles b;
GRANT SELECT ON counted_files TO unslide_service;

-- The figures of each tenant that is not deleted, one row a tenant. Every figure is read through an index that begins with
-- the tenant, and none from `reports`: the cost grows with tenants, the hours of their apps, and their symbols.
CREATE FUNCTION unslide_tenant_figures(at timestamptz)
RETURNS TABLE (slug text, name text, state text, limits jsonb, reports_last_hour bigint, reports_last_day bigint,
               deferred_records bigint, symbol_bytes bigint, pending_bytes bigint, uploads_waiting bigint, keys bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug, t.name, t.state, t.limits, h.last_hour, h.last_day,
           (SELECT coalesce(sum(d.records), 0)::bigint FROM deferred_ranges d WHERE d.tenant = t.slug),
           (SELECT coalesce(sum(f.size), 0)::bigint FROM counted_files f WHERE f.tenant = t.slug),
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
