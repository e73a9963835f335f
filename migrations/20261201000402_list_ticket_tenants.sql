-- The tenants with work on tickets, from the one after `after` on. One tenant's trackers and its backlog cost the others nothing.
CREATE FUNCTION unslide_ticket_tenants(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND EXISTS (
        SELECT FROM trackers k
        WHERE k.tenant = t.slug AND (
            (k.rule_reports IS NOT NULL AND k.next_look_at <= at)
            OR ((k.not_before IS NULL OR k.not_before <= at) AND EXISTS (
                SELECT FROM ticket_requests r
                WHERE r.tenant = k.tenant AND r.tracker = k.name AND r.due_at <= at
                  AND (r.leased_until IS NULL OR r.leased_until <= at)))))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;
REVOKE ALL ON FUNCTION unslide_ticket_tenants FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_ticket_tenants TO unslide_service;
