-- The tenants that chose when a resolved group comes back. The others have the default: by the verdict, for apps with sessions.
CREATE TABLE regression_rules (
    tenant     text PRIMARY KEY REFERENCES tenants (slug),
    rule       text NOT NULL CHECK (rule IN ('any_report', 'not_fixed')),
    changed_at timestamptz NOT NULL
);
SELECT unslide_protect('regression_rules', 'tenant', 'SELECT, INSERT, UPDATE');

-- Resolved groups of which a new report came that may be one of few: they come back once the verdict says that they are not fixed.
CREATE TABLE held_regressions (
    tenant       text NOT NULL REFERENCES tenants (slug),
    group_id     uuid NOT NULL,
    app          text NOT NULL,
    -- The first such report.
    version      text NOT NULL,
    received_at  timestamptz NOT NULL,
    next_look_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, group_id)
);
CREATE INDEX held_regressions_due ON held_regressions (tenant, next_look_at);
SELECT unslide_protect('held_regressions', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The tenants with groups that are to be judged, from the one after `after` on.
CREATE FUNCTION unslide_held_regressions_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
      AND EXISTS (SELECT FROM held_regressions h WHERE h.tenant = t.slug AND h.next_look_at <= at)
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;
