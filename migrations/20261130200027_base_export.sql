-- Live events are numbered by tenant, in the order in which they are committed: the row of the tenant's counter stays locked
-- until the transaction ends. So no reader waits for transactions of others, and a number tells nothing of them.
CREATE TABLE live_event_counters (
    tenant text PRIMARY KEY,
    -- The number of the last event.
    last   bigint NOT NULL
);
SELECT unslide_protect('live_event_counters', 'tenant', 'SELECT, INSERT, UPDATE');

-- The next number of the transaction's tenant.
CREATE FUNCTION unslide_next_live_event() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public, pg_temp AS $$
    INSERT INTO live_event_counters AS c (tenant, last) VALUES (current_setting('unslide.tenant', true), 1)
    ON CONFLICT (tenant) DO UPDATE SET last = c.last + 1 RETURNING last
$$;
REVOKE ALL ON FUNCTION unslide_next_live_event() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_next_live_event() TO unslide_service;

-- Events of a tenant's reports, groups and symbols, for dashboards that follow them. Kept for a day.
CREATE TABLE live_events (
    tenant      text NOT NULL,
    event       bigint NOT NULL DEFAULT unslide_next_live_event(),
    -- Kind of the event: a word of the store, or one that a feature declares.
    kind        text NOT NULL CHECK (kind ~ '^[a-z_]{1,50}$'),
    -- NULL: of no app.
    app         text,
    data        jsonb NOT NULL,
    occurred_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, event)
);
CREATE INDEX live_events_age ON live_events (occurred_at);
SELECT unslide_protect('live_events', 'tenant', 'SELECT, INSERT');
-- Events lose the titles of groups when texts are removed.
GRANT UPDATE (data) ON live_events TO unslide_service;
INSERT INTO purges (target, key, at_column) VALUES ('live_events', 'tenant, event', 'occurred_at');
