-- Events for the topic of stored reports: written in the transaction that changes a report, deleted once Kafka has them. No column
-- names a person.
CREATE TABLE stored_events (
    tenant              text NOT NULL,
    -- Grows with each event of a report: it is taken while the report is locked.
    number              bigint GENERATED ALWAYS AS IDENTITY,
    queued_at           timestamptz NOT NULL,
    -- NULL: the tenant is deleted.
    report_id           uuid,
    variant             integer NOT NULL DEFAULT 0,
    revision            integer NOT NULL DEFAULT 0,
    deleted             boolean NOT NULL DEFAULT false,
    -- What follows is as in the row of the report. Of a deleted report only its app and its time are known.
    app                 text,
    received_at         timestamptz,
    app_version         text,
    app_build           text,
    kind                text,
    fatal               boolean,
    status              text,
    exception           text,
    signal              text,
    fault               text,
    group_id            uuid,
    occurred_at         timestamptz,
    os_name             text,
    os_version          text,
    os_build            text,
    model               text,
    cpu_arch            text,
    teller              text,
    weight              integer,
    same_crash_as       uuid,
    frames_total        integer,
    frames_symbolicated integer,
    frames_missing      integer,
    frames_own          integer,
    frames_own_symbolicated integer,
    symbols_missing     boolean,
    PRIMARY KEY (tenant, number)
)
-- Rows come and go all the time.
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
      autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);
SELECT unslide_protect('stored_events', 'tenant', 'SELECT, INSERT, DELETE');

-- When a tenant's events are sent, and until when a process sends them.
CREATE TABLE stored_event_turns (
    tenant       text PRIMARY KEY REFERENCES tenants (slug),
    next_send_at timestamptz NOT NULL,
    leased_until timestamptz,
    -- Turns in a row that failed.
    failures     integer NOT NULL DEFAULT 0
);
SELECT unslide_protect('stored_event_turns', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The first event of each tenant that has some: one look in the index for each tenant, however many events wait. Of a deleted
-- tenant only its own event is sent.
CREATE FUNCTION unslide_stored_events_first() RETURNS TABLE (tenant text, queued_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    WITH RECURSIVE waiting AS (
        (SELECT e.tenant, e.queued_at FROM stored_events e ORDER BY e.tenant, e.number LIMIT 1)
        UNION ALL
        SELECT n.tenant, n.queued_at FROM waiting w CROSS JOIN LATERAL (
            SELECT e.tenant, e.queued_at FROM stored_events e WHERE e.tenant > w.tenant
            ORDER BY e.tenant, e.number LIMIT 1) n)
    SELECT w.tenant, w.queued_at FROM waiting w JOIN tenants t ON t.slug = w.tenant
    WHERE (t.state <> 'deleted'
           OR EXISTS (SELECT FROM stored_events e WHERE e.tenant = w.tenant AND e.report_id IS NULL))
      AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
$$;
REVOKE ALL ON FUNCTION unslide_stored_events_first FROM PUBLIC;

-- The tenants with events that are to be sent, from the one after `after` on.
CREATE FUNCTION unslide_stored_events_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT f.tenant FROM unslide_stored_events_first() f LEFT JOIN stored_event_turns s ON s.tenant = f.tenant
    WHERE s.tenant IS NULL OR (s.next_send_at <= at AND (s.leased_until IS NULL OR s.leased_until <= at))
    ORDER BY f.tenant <= after, f.tenant LIMIT how_many
$$;

-- The time of the oldest event that waits, of any tenant.
CREATE FUNCTION unslide_stored_events_oldest() RETURNS timestamptz
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT min(f.queued_at) FROM unslide_stored_events_first() f
$$;
