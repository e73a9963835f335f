-- Records that a stage could not process, without their bytes: those stay in the topic, and this says where. Kept for
-- 30 days, as long as the dead-letter topic keeps them.
CREATE TABLE dead_letters (
    -- The broker's id of the topic: offsets of another topic under the same name mean nothing.
    topic_id         text NOT NULL,
    partition        integer NOT NULL,
    at_offset        bigint NOT NULL,
    topic            text NOT NULL,
    -- `symbolize`: the symbolizer copied the record to the dead-letter topic. `read`: the indexer refused it. `store`: the
    -- indexer or the database failed at it.
    stage            text NOT NULL CHECK (stage IN ('symbolize', 'read', 'store')),
    -- NULL where no tenant is known for certain: such rows are seen by operators only.
    tenant           text,
    arrived_at       timestamptz NOT NULL,
    reason           text NOT NULL,
    detail           text NOT NULL,
    -- Number of attempts to process the record; NULL if they were not counted.
    attempt          integer,
    -- The first record of its history and the one that it was made from; NULL if the record does not say.
    origin_topic     text,
    origin_partition integer,
    origin_offset    bigint,
    source_topic     text,
    source_partition integer,
    source_offset    bigint,
    -- Index of the report and number of reports in the source, if that held an array.
    source_index     integer,
    source_count     integer,
    -- Bytes of the value; NULL for a record without a value.
    value_bytes      bigint,
    status           text NOT NULL DEFAULT 'waiting'
                     CHECK (status IN ('waiting', 'requested', 'replayed', 'failed', 'past_retention')),
    replays          integer NOT NULL DEFAULT 0,
    -- The last replay: when and by which key it was asked for, where the new record lies, and why it failed.
    replayed_at      timestamptz,
    replayed_by      text,
    replayed_as      text,
    replay_detail    text,
    PRIMARY KEY (topic_id, partition, at_offset)
);
CREATE INDEX dead_letters_newest ON dead_letters (tenant, arrived_at DESC, topic_id DESC, partition DESC, at_offset DESC);
CREATE INDEX dead_letters_newest_of_all ON dead_letters (arrived_at DESC, topic_id DESC, partition DESC, at_offset DESC);
CREATE INDEX dead_letters_open ON dead_letters (stage, arrived_at) WHERE status IN ('waiting', 'requested', 'failed');
CREATE INDEX dead_letters_requested ON dead_letters (replayed_at) WHERE status = 'requested';
-- NULL equals nothing, so the policy hides the rows without a tenant from every tenant.
SELECT unslide_protect('dead_letters', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('dead_letters', 'topic_id, partition, at_offset', 'arrived_at');

-- Adds a dead letter without a tenant. True if it was not there before. The transaction goes on without a tenant.
CREATE FUNCTION unslide_dead_letter_without_tenant(letter jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    noted bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true), set_config('unslide.tenant', '', true);
    INSERT INTO dead_letters (topic_id, partition, at_offset, topic, stage, arrived_at, reason, detail, attempt,
                              origin_topic, origin_partition, origin_offset, source_topic, source_partition,
                              source_offset, source_index, source_count, value_bytes, status)
    SELECT l.topic_id, l.partition, l.at_offset, l.topic, l.stage, l.arrived_at, l.reason, l.detail, l.attempt,
           l.origin_topic, l.origin_partition, l.origin_offset, l.source_topic, l.source_partition,
           l.source_offset, l.source_index, l.source_count, l.value_bytes, l.status
    FROM jsonb_populate_record(NULL::dead_letters, letter) l
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS noted = ROW_COUNT;
    RETURN noted > 0;
END $$;

-- Dead letters of all tenants and of none, newest first: for operators. The bounds are always there, so that the index gives
-- the order and where to begin.
CREATE FUNCTION unslide_dead_letters(
    wanted_stage text, wanted_reason text, since timestamptz, before timestamptz, wanted_status text, wanted_tenant text,
    after_at timestamptz, after_topic_id text, after_partition integer, after_offset bigint, how_many integer)
RETURNS SETOF dead_letters
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT l.* FROM dead_letters l
    WHERE (wanted_stage IS NULL OR l.stage = wanted_stage)
      AND (wanted_reason IS NULL OR l.reason = wanted_reason)
      AND l.arrived_at >= coalesce(since, '-infinity'::timestamptz)
      AND l.arrived_at < coalesce(before, 'infinity'::timestamptz)
      AND (wanted_status IS NULL OR l.status = wanted_status)
      AND (wanted_tenant IS NULL OR coalesce(l.tenant, '') = wanted_tenant)
      AND (l.arrived_at, l.topic_id, l.partition, l.at_offset)
        < (coalesce(after_at, 'infinity'::timestamptz), coalesce(after_topic_id, ''), coalesce(after_partition, 0),
           coalesce(after_offset, 0))
    ORDER BY l.arrived_at DESC, l.topic_id DESC, l.partition DESC, l.at_offset DESC LIMIT how_many
$$;

-- The number of dead letters of all tenants and of none: for operators.
CREATE FUNCTION unslide_dead_letters_count(
    wanted_stage text, wanted_reason text, since timestamptz, before timestamptz, wanted_status text, wanted_tenant text)
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT count(*) FROM dead_letters l
    WHERE (wanted_stage IS NULL OR l.stage = wanted_stage)
      AND (wanted_reason IS NULL OR l.reason = wanted_reason)
      AND (since IS NULL OR l.arrived_at >= since)
      AND (before IS NULL OR l.arrived_at < before)
      AND (wanted_status IS NULL OR l.status = wanted_status)
      AND (wanted_tenant IS NULL OR coalesce(l.tenant, '') = wanted_tenant)
$$;

-- One dead letter of any tenant or none, locked until the transaction ends: for operators.
CREATE FUNCTION unslide_dead_letter(wanted_topic_id text, wanted_partition integer, wanted_offset bigint)
RETURNS SETOF dead_letters
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT l.* FROM dead_letters l
    WHERE l.topic_id = wanted_topic_id AND l.partition = wanted_partition AND l.at_offset = wanted_offset FOR UPDATE
$$;

-- Notes a replay of a dead letter of any tenant or none, done (`placed_as`) or asked for: for operators.
CREATE FUNCTION unslide_dead_letter_replayed(
    wanted_topic_id text, wanted_partition integer, wanted_offset bigint, new_status text, at timestamptz, by_whom text,
    placed_as text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    noted bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    UPDATE dead_letters SET status = new_status, replays = replays + 1, replayed_at = at, replayed_by = by_whom,
                            replayed_as = placed_as, replay_detail = NULL
    WHERE topic_id = wanted_topic_id AND partition = wanted_partition AND at_offset = wanted_offset;
    GET DIAGNOSTICS noted = ROW_COUNT;
    RETURN noted > 0;
END $$;

-- Dead letters of any tenant or none with a replay that the indexer has not done, except of tenants that another cell may be serving:
-- its indexers do these replays.
CREATE FUNCTION unslide_dead_letters_requested(how_many integer) RETURNS SETOF dead_letters
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT l.* FROM dead_letters l
    WHERE l.status = 'requested' AND (l.tenant IS NULL OR NOT unslide_is_elsewhere(l.tenant))
    ORDER BY l.replayed_at LIMIT how_many
$$;

-- How the indexer's replay of a dead letter of any tenant or none ended. False where it had ended before.
CREATE FUNCTION unslide_dead_letter_replay_ended(
    wanted_topic_id text, wanted_partition integer, wanted_offset bigint, new_status text, new_detail text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    noted bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    UPDATE dead_letters SET status = new_status, replay_detail = new_detail
    WHERE topic_id = wanted_topic_id AND partition = wanted_partition AND at_offset = wanted_offset
      AND status = 'requested';
    GET DIAGNOSTICS noted = ROW_COUNT;
    RETURN noted > 0;
END $$;

-- When the oldest dead letter of each stage arrived that no replay has ended; NULL where there is none.
CREATE FUNCTION unslide_dead_letters_oldest() RETURNS TABLE (stage text, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT s.stage, (SELECT min(l.arrived_at) FROM dead_letters l
                     WHERE l.stage = s.stage AND l.status IN ('waiting', 'requested', 'failed'))
    FROM (VALUES ('symbolize'), ('read'), ('store')) AS s (stage)
$$;

-- How many records could not be stored since a moment, and the tenants of those that failed for one reason.
CREATE FUNCTION unslide_store_failures(since timestamptz, wanted_reason text)
RETURNS TABLE (recent bigint, tenants text[])
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT count(*),
           coalesce(array_agg(DISTINCT l.tenant) FILTER (WHERE l.reason = wanted_reason AND l.tenant IS NOT NULL), '{}')
    FROM dead_letters l WHERE l.stage = 'store' AND l.arrived_at >= since
$$;
