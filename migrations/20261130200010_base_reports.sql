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
    -- Who tells of the crash: `corpse` (an extension of the app, after its end), `handler` (the app itself), `log` (a crash log of
    -- the system) or `metric_kit`. NULL: `metric_kit` says it.
    teller              text,
    -- Whether another report may tell of the same crash: this one is not of the handler that the system runs first.
    second_telling      boolean NOT NULL DEFAULT false,
    -- Weight: the number of reports that it represents. The others of a sample were not sent or not kept. 1
    -- for a crash.
    weight              integer NOT NULL DEFAULT 1,
    -- The report of the same crash that is counted instead of this one.
    same_crash_as       uuid,
    -- Whether the body is kept. NULL: it is, as usual. true: it was chosen among the bodies of its group and day. false: it was
    -- dropped, and the report has neither a row of report_bodies nor one of report_frames.
    body_kept           boolean,
    -- How many bodies the group keeps of a day, if this one was dropped for that.
    kept_bodies         integer,
    -- The most similar report of the same group when the body was dropped. That report may be gone by now.
    like_report         uuid,
    like_variant        integer,
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
-- The same of reports of MetricKit.
CREATE INDEX reports_metric_kit_identity
    ON reports (tenant, process_identity, app, (run_id IS NULL), received_at, report_id)
    WHERE process_identity IS NOT NULL AND metric_kit AND fatal;
-- Reports of crashes that another report may tell of, in the order in which they were stored.
CREATE INDEX reports_second_telling ON reports (stored_at)
    WHERE fatal AND same_crash_as IS NULL AND (second_telling OR metric_kit OR variant > 0);
-- The reports of a crash that another report is counted for.
CREATE INDEX reports_same_crash ON reports (tenant, same_crash_as) WHERE same_crash_as IS NOT NULL;
-- The chosen bodies of a group and day, however many others were dropped.
CREATE INDEX reports_kept_bodies ON reports (tenant, group_id, received_at, report_id, variant) WHERE body_kept;
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

-- Reports of crashes that another report tells of, too, across tenants, with that report. Two reports of an app tell of one crash if they
-- are of the same run; if one of the two names no run, of the same process; or if they have one id, and their versions, runs and times do
-- not contradict each other. They arrived at most `apart_days` days apart, or, looked for once, `late_days` days before this one if one of
-- the two is MetricKit's. A report that the app survived is no crash. In the order in which they were stored. Each way reads one row in the
-- order of its index, however many reports name one run or process.
CREATE FUNCTION unslide_crash_tellings(
    since timestamptz, after_id uuid, after_variant integer, fresh_since timestamptz, apart_days integer, late_days integer,
    how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer, stored_at timestamptz, other_id uuid, other_variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT m.tenant, m.report_id, m.variant, m.stored_at, k.report_id, k.variant
    FROM reports m
    CROSS JOIN LATERAL (
        SELECT m.received_at - make_interval(
                   days => CASE WHEN m.metric_kit AND m.stored_at >= fresh_since THEN late_days ELSE apart_days END) AS first,
               m.received_at - make_interval(days => CASE WHEN m.stored_at >= fresh_since THEN late_days ELSE apart_days END)
                   AS first_of_metric_kit,
               m.received_at + make_interval(days => apart_days) AS last) w
    CROSS JOIN LATERAL (
        SELECT f.report_id, f.variant FROM (
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND (o.fatal AND NOT o.metric_kit) IS TRUE AND o.run_id = m.run_id
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND NOT o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND o.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND NOT o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND (o.run_id IS NULL) IS FALSE AND m.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND o.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first_of_metric_kit AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND (o.run_id IS NULL) IS FALSE AND m.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first_of_metric_kit AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant
             FROM report_keys v
             JOIN reports o ON o.tenant = v.tenant AND o.received_at = v.received_at AND o.report_id = v.report_id
                           AND o.variant = v.variant
             WHERE m.variant > 0 AND v.tenant = m.tenant AND v.report_id = m.report_id AND v.variant < m.variant
               AND o.app = m.app AND o.version = m.version AND o.fatal
               AND (o.run_id = m.run_id) IS NOT FALSE AND (o.process_identity = m.process_identity) IS NOT FALSE
               AND (o.device_time BETWEEN m.device_time - interval '2 seconds' AND m.device_time + interval '2 seconds')
                   IS NOT FALSE
             ORDER BY v.variant LIMIT 1)) f
        ORDER BY f.received_at, f.report_id, f.variant LIMIT 1) k
    WHERE m.fatal AND m.same_crash_as IS NULL AND (m.second_telling OR m.metric_kit OR m.variant > 0)
      AND m.stored_at >= since
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = m.tenant AND t.state = 'deleted')
      AND m.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
      AND (m.stored_at, m.report_id, m.variant) > (since, after_id, after_variant)
    ORDER BY m.stored_at, m.report_id, m.variant LIMIT how_many
$$;
