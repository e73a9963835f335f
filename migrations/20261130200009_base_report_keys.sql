-- The months that keys of reports are stored under. A row is added when a month begins, and goes with its keys.
CREATE TABLE report_key_months (
    month    date PRIMARY KEY,
    -- When the next one began: no key of this month was stored later. NULL for the month that keys are stored under now.
    ended_at timestamptz
);
GRANT SELECT ON report_key_months TO unslide_service;

CREATE FUNCTION unslide_key_month() RETURNS date
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS 'SELECT max(m.month) FROM report_key_months m';

-- One row a report, for as long as a topic may bring it again. It fixes the moment (and so the partition) of a report,
-- finds duplicates, is the row lock for revisions and answers by id.
-- Variant 0 is the first report with this id; others with the same id and other bytes follow, flagged.
CREATE TABLE report_keys (
    tenant             text NOT NULL,
    report_id          uuid NOT NULL,
    variant            integer NOT NULL,
    -- When the row was stored. All writers store under the same month, however old their reports are: so the primary key lets
    -- one of them claim an id, and a month is dropped as a whole.
    stored_month       date NOT NULL DEFAULT unslide_key_month(),
    -- SHA-256 of the report without our keys.
    content_hash       bytea NOT NULL CHECK (length(content_hash) = 32),
    -- The broker's time of the first arrival, never the device's.
    received_at        timestamptz NOT NULL,
    latest_revision    integer NOT NULL,
    -- The number that was asked for last; a request is outstanding while requested_at is set.
    requested_revision integer NOT NULL DEFAULT 0,
    requested_at       timestamptz,
    -- When the request was sent first: sent again it is the same one, and an answer to either ends it.
    asked_at           timestamptz,
    -- The symbols that the request is about: [[debug id, generation], …]
    requested_needs    jsonb,
    -- The reprocess that made the outstanding request, if one did.
    reprocess_id       uuid,
    -- Whether newer symbols exist is still to be asked: set while a replay is under way.
    ask_pending        boolean NOT NULL DEFAULT false,
    conflicted         boolean NOT NULL DEFAULT false,
    -- Deleted reports are remembered, so that a replay does not bring them back.
    deleted_at         timestamptz,
    -- A report with symbols that are there and could not be fetched is requested again by the clock.
    retry_at           timestamptz,
    -- How often it was requested since then.
    retries            integer NOT NULL DEFAULT 0,
    -- [[debug id, generation, system], …] of what could not be fetched.
    retry_needs        jsonb,
    -- The version of the report's row in ClickHouse, if the row has moved there. NULL: the row is in `reports`, or the report has none.
    history_version    integer,
    -- The input record that brought it first.
    origin_topic       text,
    origin_partition   integer,
    origin_offset      bigint,
    origin_index       integer,
    PRIMARY KEY (tenant, report_id, variant, stored_month)
) PARTITION BY LIST (stored_month);
-- The others of an id by their bytes, however many there are.
CREATE INDEX report_keys_further ON report_keys (tenant, report_id, content_hash) WHERE variant > 0;
CREATE INDEX report_keys_requested ON report_keys (requested_at) WHERE requested_at IS NOT NULL;
CREATE INDEX report_keys_pending ON report_keys (tenant, report_id, variant) WHERE ask_pending;
CREATE INDEX report_keys_retry ON report_keys (retry_at) WHERE retry_at IS NOT NULL;
-- The reports of a tenant with rows in ClickHouse, by their time.
CREATE INDEX report_keys_moved ON report_keys (tenant, received_at) WHERE history_version IS NOT NULL;
SELECT unslide_protect('report_keys', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Begins the month of a moment, unless it or a later one has begun. Writers hold the lock `key month` while they store keys, so
-- that no two of them store under different months at the same time.
CREATE FUNCTION unslide_key_month_begin(at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
DECLARE
    wanted date := date_trunc('month', at);
    child text := 'report_keys_' || to_char(wanted, 'YYYYMM');
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    IF unslide_key_month() >= wanted THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    PERFORM pg_advisory_xact_lock(hashtextextended('key month', 0));
    -- Another indexer may have begun it during the wait.
    IF unslide_key_month() >= wanted THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE public.%I (LIKE public.report_keys INCLUDING ALL)', child);
    EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', child);
    EXECUTE format('ALTER TABLE public.report_keys ATTACH PARTITION public.%I FOR VALUES IN (%L)', child, wanted);
    UPDATE report_key_months SET ended_at = at WHERE ended_at IS NULL;
    INSERT INTO report_key_months (month) VALUES (wanted);
    RETURN true;
END $$;
-- An installation begins its own when its indexer starts.
SELECT unslide_key_month_begin('2026-11-01Z');

-- Drops the months that ended before a moment, with their keys; returns their number. It gives up as `unslide_partitions_drop`
-- does.
CREATE FUNCTION unslide_key_months_drop(before timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    gone date;
    dropped integer := 0;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOR gone IN SELECT m.month FROM report_key_months m WHERE m.ended_at < before LOOP
        EXECUTE format('DROP TABLE public.%I', 'report_keys_' || to_char(gone, 'YYYYMM'));
        DELETE FROM report_key_months WHERE month = gone;
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- Further arrivals of a report that is there: other input records with the same bytes. Kept as long as the report's key.
CREATE TABLE report_duplicates (
    tenant           text NOT NULL,
    report_id        uuid NOT NULL,
    variant          integer NOT NULL,
    origin_topic     text NOT NULL,
    origin_partition integer NOT NULL,
    origin_offset    bigint NOT NULL,
    -- Index of the report in its record, if that held several.
    origin_index     integer NOT NULL,
    -- The broker's time of this arrival.
    seen_at          timestamptz NOT NULL,
    -- The report's own, by which both are forgotten.
    received_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, report_id, variant, origin_topic, origin_partition, origin_offset, origin_index)
);
CREATE INDEX report_duplicates_age ON report_duplicates (received_at);
SELECT unslide_protect('report_duplicates', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES
    ('report_duplicates', 'tenant, report_id, variant, origin_topic, origin_partition, origin_offset, origin_index', 'received_at');
