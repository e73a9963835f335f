-- Nothing is asked for a deleted tenant, whose rows may still be there for a while.
CREATE OR REPLACE FUNCTION unslide_system_waits_tenants(debug_ids uuid[], generations bigint[], after text, how_many integer)
RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT w.tenant FROM unnest(debug_ids, generations) AS n (debug_id, generation)
    JOIN system_waits w ON w.debug_id = n.debug_id AND w.seen_generation < n.generation
    WHERE w.tenant > after
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = w.tenant AND t.state = 'deleted')
    ORDER BY 1 LIMIT how_many
$$;
