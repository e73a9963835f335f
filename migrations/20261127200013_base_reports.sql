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

CREATE TABLE reports (
    tenant              text NOT NULL,
    received_at         timestamptz NOT NULL,
    report_id           uuid NOT NULL,
    variant             integer NOT NULL,
    revision            integer NOT NULL,
    app                 text NOT NULL,
    version             text NOT NULL,
    build               text NOT NULL,
    type                text NOT NULL,
    -- A crash: the app did not survive it. An end out of memory is none.
    fatal               boolean NOT NULL DEFAULT false,
    status              text NOT NULL,
    -- The device's claim.
    device_time         timestamptz,
    device              bytea,
    os_name             text,
    os_version          text,
    os_build            text,
    model               text,
    process             text,
    reason              text,
    -- Facts for lists beside the reason: exception, signal, top frames.
    summary             jsonb NOT NULL,
    -- State of the app and the device (facts), the app's own keys (keys) and what analyses found (verdicts, subjects), for the shares
    -- of a group.
    context             jsonb NOT NULL DEFAULT '{}',
    frames_total        integer NOT NULL,
    frames_symbolicated integer NOT NULL,
    frames_device       integer NOT NULL,
    -- Frames that the device answered and that lie in an image of the app itself: a part of frames_device.
    frames_device_app   integer NOT NULL,
    frames_missing      integer NOT NULL,
    -- Frames in images of the app itself and of its own JavaScript, and those of them that uploaded symbols named.
    frames_own          integer NOT NULL DEFAULT 0,
    frames_own_symbolicated integer NOT NULL DEFAULT 0,
    -- Whether the symbols of an image of the app itself are missing.
    symbols_missing     boolean NOT NULL,
    system_images       uuid[] NOT NULL,
    -- The images that wanted_images counts the report for.
    wanted              uuid[] NOT NULL,
    -- The group of its own fingerprint, which may be merged into another one.
    group_id            uuid,
    -- Its title for the group: a group has the title of one of its reports.
    title               text,
    -- The run of the app that ended, if the report names it.
    run_id              uuid,
    -- The process that ended, by what KSCrash and MetricKit both say of it.
    process_identity    uuid,
    -- Made by MetricKit and not by KSCrash.
    metric_kit          boolean NOT NULL DEFAULT false,
    -- Weight: the number of reports that it represents. The others of a sample were not sent or not kept. 1
    -- for a crash.
    weight              integer NOT NULL DEFAULT 1,
    -- KSCrash's report of the same crash, which is counted instead of this one.
    same_crash_as       uuid,
    -- The public key that the report came with. NULL for other senders.
    sender_key          text,
    -- The first record of the report's history and its trace, for a later symbolication.
    origin_topic        text,
    origin_partition    integer,
    origin_offset       bigint,
    traceparent         text,
    stored_at           timestamptz NOT NULL,
    PRIMARY KEY (tenant, received_at, report_id, variant)
) PARTITION BY RANGE (received_at);
CREATE INDEX reports_app ON reports (tenant, app, received_at, report_id, variant);
CREATE INDEX reports_version ON reports (tenant, app, version, received_at, report_id, variant);
CREATE INDEX reports_group ON reports (tenant, group_id, received_at, report_id, variant) WHERE group_id IS NOT NULL;
-- Events that a run of the app has sent, for the timeline of its session and the reports of a person; and among them
-- KSCrash's reports of crashes: an error that the app survived is none.
CREATE INDEX reports_run ON reports (tenant, run_id, (fatal AND NOT metric_kit), received_at, report_id, variant)
    WHERE run_id IS NOT NULL;
CREATE INDEX reports_process_identity ON reports (tenant, process_identity, app, (run_id IS NULL), received_at, report_id)
    WHERE process_identity IS NOT NULL AND NOT metric_kit AND fatal;
CREATE INDEX reports_metric_kit ON reports (stored_at)
    WHERE metric_kit AND fatal AND same_crash_as IS NULL AND (run_id IS NOT NULL OR process_identity IS NOT NULL);
-- The newest reports of a device.
CREATE INDEX reports_device ON reports (tenant, device, received_at, report_id, variant) WHERE device IS NOT NULL;
CREATE INDEX reports_sender_key ON reports (tenant, sender_key, received_at, report_id, variant) WHERE sender_key IS NOT NULL;
-- The reports that say how much memory the app may have.
CREATE INDEX reports_memory_limit ON reports (tenant, app, received_at, report_id, variant) WHERE summary ? 'memory_limit';
SELECT unslide_protect('reports', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
-- How frequent a version is among all tenants changes no plan.
ALTER TABLE reports ALTER COLUMN version SET STATISTICS 0;

-- Which generation of an app image's symbols a report has seen (0: none). Also the way from a debug id to its reports.
CREATE TABLE waits (
    tenant          text NOT NULL,
    debug_id        uuid NOT NULL,
    received_at     timestamptz NOT NULL,
    report_id       uuid NOT NULL,
    variant         integer NOT NULL,
    seen_generation bigint NOT NULL,
    PRIMARY KEY (tenant, debug_id, received_at, report_id, variant)
) PARTITION BY RANGE (received_at);
-- The waits of a report. By its time first: ids would change a page each.
CREATE INDEX waits_report ON waits (tenant, received_at, report_id, variant);
SELECT unslide_protect('waits', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The same for system images, which every report has: by day, the reports are found by reports.system_images.
CREATE TABLE system_waits (
    tenant          text NOT NULL,
    debug_id        uuid NOT NULL,
    day             date NOT NULL,
    seen_generation bigint NOT NULL,
    PRIMARY KEY (tenant, debug_id, day)
);
CREATE INDEX system_waits_debug_id ON system_waits (debug_id, tenant, seen_generation);
CREATE INDEX system_waits_day ON system_waits (tenant, day);
SELECT unslide_protect('system_waits', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE app_days (
    tenant              text NOT NULL,
    app                 text NOT NULL,
    version             text NOT NULL,
    day                 date NOT NULL,
    reports             bigint NOT NULL,
    -- Those that the app did not survive: crashes.
    fatal               bigint NOT NULL DEFAULT 0,
    -- Devices that this version was reported from for the first time on this day: the sum over days is exact.
    devices             bigint NOT NULL,
    frames_total        bigint NOT NULL,
    frames_symbolicated bigint NOT NULL,
    -- The same of frames in the app's own code.
    frames_own          bigint NOT NULL DEFAULT 0,
    frames_own_symbolicated bigint NOT NULL DEFAULT 0,
    -- Reports by status.
    complete            bigint NOT NULL,
    partial             bigint NOT NULL,
    none                bigint NOT NULL,
    -- Those of `reports` that were not sent or not kept: sampled reports represent them.
    extrapolated        bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, app, version, day)
);
-- Lists of apps and versions go from the newest day back, a page at a time. A count that changes touches neither index.
CREATE INDEX app_days_seen ON app_days (tenant, day DESC, app DESC);
CREATE INDEX app_days_version_seen ON app_days (tenant, app, day DESC, version DESC);
SELECT unslide_protect('app_days', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The same by hour, of the last 14 days.
CREATE TABLE app_hours (
    tenant  text NOT NULL,
    app     text NOT NULL,
    version text NOT NULL,
    -- When it began.
    hour    timestamptz NOT NULL,
    reports bigint NOT NULL,
    fatal   bigint NOT NULL,
    PRIMARY KEY (tenant, app, version, hour)
);
CREATE INDEX app_hours_seen ON app_hours (tenant, hour DESC);
SELECT unslide_protect('app_hours', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE app_devices (
    tenant  text NOT NULL,
    app     text NOT NULL,
    version text NOT NULL,
    device  bytea NOT NULL,
    day     date NOT NULL,
    -- Reports of the device that app_days counts.
    reports bigint NOT NULL,
    PRIMARY KEY (tenant, app, version, device)
);
SELECT unslide_protect('app_devices', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Images that reports came without symbols for. Whether they are still missing is for symbol_slots to say.
CREATE TABLE wanted_images (
    tenant     text NOT NULL,
    app        text NOT NULL,
    version    text NOT NULL,
    debug_id   uuid NOT NULL,
    name       text NOT NULL,
    arch       text NOT NULL,
    system     boolean NOT NULL,
    reports    bigint NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen  timestamptz NOT NULL,
    PRIMARY KEY (tenant, app, version, debug_id)
);
SELECT unslide_protect('wanted_images', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

INSERT INTO purges (target, key, at_column) VALUES
    ('report_duplicates', 'tenant, report_id, variant, origin_topic, origin_partition, origin_offset, origin_index', 'received_at');
