-- What happened to a tenant's reports, groups and symbols, for dashboards that follow it. Kept for a day.
CREATE TABLE live_events (
    tenant      text NOT NULL,
    -- The transaction that wrote it. A reader goes only as far as no transaction runs any more, so that it skips none
    -- that commits late.
    transaction bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    number      bigint GENERATED ALWAYS AS IDENTITY,
    kind        text NOT NULL
        CHECK (kind IN ('group_created', 'group_regressed', 'reports_stored', 'alert_raised', 'symbols_ready')),
    -- NULL: of no app.
    app         text,
    data        jsonb NOT NULL,
    occurred_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, transaction, number)
);
CREATE INDEX live_events_age ON live_events (occurred_at);
SELECT unslide_protect('live_events', 'tenant', 'SELECT, INSERT');

CREATE FUNCTION unslide_live_events_purge(before timestamptz, how_many integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT unslide_delete_before('live_events', 'tenant, transaction, number', 'occurred_at', before, how_many)
$$;
