-- Messages for Kafka, written in the transaction of the change that they announce.
CREATE TABLE outbox (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant           text NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('symbol_event', 'tenant_config', 'resymbolicate')),
    message          jsonb NOT NULL,
    created_at       timestamptz NOT NULL,
    sent_at          timestamptz,
    owning_tenant    text GENERATED ALWAYS AS (CASE WHEN tenant <> '~system' THEN tenant END) STORED REFERENCES tenants (slug),
    -- A message that the program cannot read is set aside: it is kept, and the others go on.
    set_aside_at     timestamptz,
    set_aside_reason text
);
CREATE INDEX outbox_unsent ON outbox (id) WHERE sent_at IS NULL;
CREATE INDEX outbox_sent ON outbox (sent_at) WHERE sent_at IS NOT NULL;
-- The requests of each tenant in their order, and the jobs that go before them.
CREATE INDEX outbox_requests ON outbox (tenant, id) WHERE sent_at IS NULL AND kind = 'resymbolicate';
CREATE INDEX outbox_events ON outbox (kind DESC, id) WHERE sent_at IS NULL AND kind <> 'resymbolicate';
CREATE INDEX outbox_set_aside ON outbox (id) WHERE set_aside_at IS NOT NULL;
SELECT unslide_protect('outbox', 'tenant', 'SELECT, INSERT');
INSERT INTO purges (target, key, at_column) VALUES ('outbox', 'id', 'sent_at');

CREATE FUNCTION unslide_notify_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('unslide_' || TG_TABLE_NAME, '');
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_added AFTER INSERT ON jobs FOR EACH STATEMENT EXECUTE FUNCTION unslide_notify_table();
CREATE TRIGGER outbox_added AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION unslide_notify_table();

-- Tenants' configurations, then symbol events, each in its order; then requests, an equal number of each tenant that has
-- any, each tenant's in their order. Nothing that is set aside.
CREATE FUNCTION unslide_outbox_unsent(how_many integer)
RETURNS TABLE (id bigint, tenant text, message jsonb, created_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH RECURSIVE events AS (
        SELECT o.id, o.tenant, o.message, o.created_at,
               row_number() OVER (ORDER BY o.kind DESC, o.id) AS place
        FROM outbox o WHERE o.sent_at IS NULL AND o.set_aside_at IS NULL AND o.kind <> 'resymbolicate'
        ORDER BY o.kind DESC, o.id LIMIT how_many),
    -- One search of the index for each tenant, however many requests it has.
    asking AS (
        (SELECT o.tenant FROM outbox o WHERE o.sent_at IS NULL AND o.kind = 'resymbolicate'
         ORDER BY o.tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT o.tenant FROM outbox o
                WHERE o.sent_at IS NULL AND o.kind = 'resymbolicate' AND o.tenant > a.tenant
                ORDER BY o.tenant LIMIT 1)
        FROM asking a WHERE a.tenant IS NOT NULL),
    requests AS (
        SELECT r.id, r.tenant, r.message, r.created_at, r.turn
        FROM asking a CROSS JOIN LATERAL (
            SELECT o.id, o.tenant, o.message, o.created_at, row_number() OVER (ORDER BY o.id) AS turn
            FROM outbox o
            WHERE o.sent_at IS NULL AND o.set_aside_at IS NULL AND o.kind = 'resymbolicate' AND o.tenant = a.tenant
            ORDER BY o.id
            LIMIT (SELECT greatest(how_many / greatest(count(f.tenant)::integer, 1), 1) FROM asking f)) r)
    SELECT n.id, n.tenant, n.message, n.created_at FROM (
        SELECT e.id, e.tenant, e.message, e.created_at, 0 AS rank, e.place FROM events e
        UNION ALL
        SELECT r.id, r.tenant, r.message, r.created_at, 1, r.turn FROM requests r) n
    ORDER BY n.rank, n.place, n.id LIMIT how_many
$$;

CREATE FUNCTION unslide_outbox_sent(ids bigint[], at timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    UPDATE outbox SET sent_at = at WHERE id = ANY (ids) AND sent_at IS NULL
$$;

CREATE FUNCTION unslide_outbox_set_aside(which bigint, reason text, at timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    UPDATE outbox SET set_aside_at = at, set_aside_reason = reason WHERE id = which AND sent_at IS NULL
$$;

-- Has what was set aside tried again: a later program may read it.
CREATE FUNCTION unslide_outbox_take_back() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH back AS (
        UPDATE outbox SET set_aside_at = NULL WHERE set_aside_at IS NOT NULL AND sent_at IS NULL RETURNING 1)
    SELECT count(*) FROM back
$$;

CREATE FUNCTION unslide_outbox_aside() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT count(*) FROM outbox o WHERE o.set_aside_at IS NOT NULL AND o.sent_at IS NULL
$$;
