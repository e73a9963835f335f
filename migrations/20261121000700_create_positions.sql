-- How far the indexers have read: part of the transaction that stores what was read.
CREATE TABLE positions (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    -- The broker's id of the topic, so that a topic that was created again under its old name is noticed.
    topic_id    text NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE ON positions TO unslide_service;

-- Which indexer reads a partition. It only spares work: what keeps two apart is the position.
CREATE TABLE partition_leases (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    owner       text NOT NULL,
    lease_until timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON partition_leases TO unslide_service;

-- Records that could not be stored. They stay in the topic; this says where.
CREATE TABLE unreadable_records (
    topic     text NOT NULL,
    partition integer NOT NULL,
    at_offset bigint NOT NULL,
    reason    text NOT NULL,
    detail    text NOT NULL,
    seen_at   timestamptz NOT NULL,
    PRIMARY KEY (topic, partition, at_offset)
);
GRANT SELECT, INSERT, DELETE ON unreadable_records TO unslide_service;
CREATE INDEX unreadable_records_age ON unreadable_records (seen_at);

-- Records that the indexer could not store through no fault of anything but themselves: it panicked on one, or the
-- database refused its values. The bytes stay in the topic; this says where.
CREATE TABLE quarantined (
    id                  uuid PRIMARY KEY,
    -- NULL if the record names no tenant that exists: only operators see such rows.
    tenant              text,
    topic               text NOT NULL,
    -- The broker's id of the topic: offsets of another topic under the same name mean nothing.
    topic_id            text NOT NULL,
    partition           integer NOT NULL,
    at_offset           bigint NOT NULL,
    reason              text NOT NULL,
    detail              text NOT NULL,
    quarantined_at      timestamptz NOT NULL,
    -- The last replay that was asked for, and how it ended; NULL while it is under way.
    replay_requested_at timestamptz,
    replay_requested_by text,
    replay_status       text CHECK (replay_status IN ('stored', 'failed', 'past_retention')),
    replay_detail       text,
    replay_ended_at     timestamptz,
    UNIQUE (topic_id, partition, at_offset)
);
CREATE INDEX quarantined_tenant ON quarantined (tenant, id);
CREATE INDEX quarantined_age ON quarantined (quarantined_at);
-- NULL equals nothing, so the policy hides the rows without a tenant from every tenant.
SELECT unslide_protect('quarantined', 'tenant', 'SELECT, INSERT, DELETE');

-- Adds a record without a tenant. True if it was not there before. The transaction goes on without a tenant.
CREATE FUNCTION unslide_quarantine_without_tenant(record jsonb, at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    added bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true), set_config('unslide.tenant', '', true);
    INSERT INTO quarantined (id, topic, topic_id, partition, at_offset, reason, detail, quarantined_at)
    SELECT unslide_uuid(at), r.topic, r.topic_id, r.partition, r.at_offset, r.reason, r.detail, at
    FROM jsonb_populate_record(NULL::quarantined, record) r
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
    RETURN added > 0;
END $$;

-- Quarantined records of all tenants and of none, newest first: for operators, and for the indexer, which asks for
-- those with a replay under way (`wanted_due`).
CREATE FUNCTION unslide_quarantined(
    wanted_id uuid, wanted_tenant text, wanted_reason text, wanted_stored boolean, wanted_due boolean, before_id uuid,
    how_many integer)
RETURNS SETOF quarantined
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT q.* FROM quarantined q
    WHERE (wanted_id IS NULL OR q.id = wanted_id)
      AND (wanted_tenant IS NULL OR coalesce(q.tenant, '') = wanted_tenant)
      AND (wanted_reason IS NULL OR q.reason = wanted_reason)
      AND (wanted_stored IS NULL OR (coalesce(q.replay_status, '') = 'stored') = wanted_stored)
      AND (wanted_due IS NULL OR (q.replay_requested_at IS NOT NULL AND q.replay_ended_at IS NULL) = wanted_due)
      AND (before_id IS NULL OR q.id < before_id)
    ORDER BY q.id DESC LIMIT how_many
$$;

-- Asks the indexer for a replay, of a record of any tenant or none: for operators.
CREATE FUNCTION unslide_quarantine_replay(wanted_id uuid, at timestamptz, by_whom text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    UPDATE quarantined SET replay_requested_at = at, replay_requested_by = by_whom, replay_status = NULL,
                           replay_detail = NULL, replay_ended_at = NULL
    WHERE id = wanted_id;
    GET DIAGNOSTICS found = ROW_COUNT;
    RETURN found > 0;
END $$;

-- How the replay of a record of any tenant or none ended.
CREATE FUNCTION unslide_quarantine_replayed(wanted_id uuid, at timestamptz, new_status text, new_detail text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    UPDATE quarantined SET replay_status = new_status, replay_detail = new_detail, replay_ended_at = at
    WHERE id = wanted_id AND replay_ended_at IS NULL;
    GET DIAGNOSTICS found = ROW_COUNT;
    RETURN found > 0;
END $$;

-- The number of records in quarantine; of those that came since a moment; and the tenants of those that came for one reason.
CREATE FUNCTION unslide_quarantine_figures(since timestamptz, wanted_reason text)
RETURNS TABLE (waiting bigint, recent bigint, tenants text[])
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT count(*) FILTER (WHERE q.replay_status IS DISTINCT FROM 'stored'),
           count(*) FILTER (WHERE q.quarantined_at >= since),
           coalesce(array_agg(DISTINCT q.tenant) FILTER (
               WHERE q.quarantined_at >= since AND q.reason = wanted_reason AND q.tenant IS NOT NULL), '{}')
    FROM quarantined q
$$;

INSERT INTO purges (target, key, at_column) VALUES
    ('quarantined', 'id', 'quarantined_at'),
    ('unreadable_records', 'topic, partition, at_offset', 'seen_at');
