-- One row a report, for as long as a topic may bring it again. It fixes the moment (and so the partition) of a report,
-- finds duplicates, is the row lock for revisions and answers by id.
-- Variant 0 is the first report with this id; others with the same id and other bytes follow, flagged.
CREATE TABLE report_keys (
    tenant             text NOT NULL,
    report_id          uuid NOT NULL,
    variant            integer NOT NULL,
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
    PRIMARY KEY (tenant, report_id, variant),
    UNIQUE (tenant, report_id, content_hash)
) PARTITION BY HASH (tenant, report_id);
CREATE INDEX report_keys_requested ON report_keys (requested_at) WHERE requested_at IS NOT NULL;
CREATE INDEX report_keys_pending ON report_keys (tenant, report_id, variant) WHERE ask_pending;
CREATE INDEX report_keys_retry ON report_keys (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX report_keys_age ON report_keys (received_at);
DO $$
BEGIN
    FOR i IN 0..15 LOOP
        EXECUTE format('CREATE TABLE report_keys_%s PARTITION OF report_keys FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i);
        EXECUTE format('ALTER TABLE report_keys_%s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', i);
    END LOOP;
END $$;
SELECT unslide_protect('report_keys', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

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
-- KSCrash's reports of crashes: an error that the app survived is none.
CREATE INDEX reports_run ON reports (tenant, run_id, app, received_at, report_id)
    WHERE run_id IS NOT NULL AND NOT metric_kit AND fatal;
CREATE INDEX reports_process_identity ON reports (tenant, process_identity, app, (run_id IS NULL), received_at, report_id)
    WHERE process_identity IS NOT NULL AND NOT metric_kit AND fatal;
-- Events that a run of the app has sent, for the timeline of its session.
CREATE INDEX reports_session ON reports (tenant, run_id, received_at, report_id, variant) WHERE run_id IS NOT NULL;
CREATE INDEX reports_metric_kit ON reports (stored_at)
    WHERE metric_kit AND fatal AND same_crash_as IS NULL AND (run_id IS NOT NULL OR process_identity IS NOT NULL);
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
CREATE INDEX waits_report ON waits (tenant, report_id, variant);
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

-- Reports of one app with the same fingerprint: one bug. These counts outlive the reports. A group may be merged
-- into another one, its target, which then counts for both. `own_…` is what the reports of the group's own
-- fingerprint say; `reports`, `first_…` and `last_…` are that and the same of all groups merged into it.
CREATE TABLE groups (
    tenant            text NOT NULL,
    -- Made of the app and the fingerprint.
    id                uuid NOT NULL,
    app               text NOT NULL,
    fingerprint       uuid NOT NULL,
    kind              text NOT NULL,
    -- Reports may disagree: the smallest counts, so that it does not depend on which came first.
    title             text NOT NULL,
    -- The greatest counts: with its file, which better symbols bring, a function is greater than without.
    culprit           text NOT NULL,
    -- The symbols of a frame that counts are missing.
    provisional       boolean NOT NULL,
    reports           bigint NOT NULL,
    first_seen        timestamptz NOT NULL,
    first_version     text NOT NULL,
    last_seen         timestamptz NOT NULL,
    last_version      text NOT NULL,
    own_reports       bigint NOT NULL,
    -- Those of them that were not sent or not kept: sampled reports represent them.
    own_extrapolated  bigint NOT NULL DEFAULT 0,
    -- The different devices of these reports, exactly: `own_devices` is the number of rows of `group_devices`.
    devices           bigint NOT NULL DEFAULT 0,
    own_devices       bigint NOT NULL DEFAULT 0,
    -- NULL if none of its reports is its own.
    own_first_seen    timestamptz,
    own_first_version text,
    own_last_seen     timestamptz,
    own_last_version  text,
    -- The target. It is never merged itself, so one step leads to it. The rows of both stay without reports: the next
    -- report of either counts for the target again.
    merged_into       uuid,
    status            text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'regressed', 'resolved', 'ignored')),
    -- The version that fixes it, if the team named one, and when it was said.
    resolved_in       text,
    resolved_at       timestamptz,
    -- The newest version when the team resolved it in the next one: a report of a later version brings it back.
    resolved_after    text,
    -- The version of the report that brought it back, and when that was stored.
    regressed_in      text,
    regressed_at      timestamptz,
    -- What opens an ignored group again: a time, or this many of its reports or devices in all.
    ignored_until         timestamptz,
    ignored_until_reports bigint,
    ignored_until_devices bigint,
    -- The address of a ticket in another system.
    ticket_url        text,
    -- A name that the team chose.
    assignee          text,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX groups_tenant_seen ON groups (tenant, last_seen DESC, id DESC);
CREATE INDEX groups_seen ON groups (tenant, app, last_seen DESC, id DESC);
CREATE INDEX groups_first_seen ON groups (tenant, app, first_seen DESC, id DESC);
CREATE INDEX groups_reports ON groups (tenant, app, reports DESC, id DESC);
CREATE INDEX groups_merged ON groups (tenant, merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX groups_ignored_until ON groups (ignored_until) WHERE ignored_until IS NOT NULL;
SELECT unslide_protect('groups', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- History of a group: changes and comments. It goes with the group.
CREATE TABLE group_activity (
    tenant      text NOT NULL,
    id          uuid NOT NULL,
    group_id    uuid NOT NULL,
    at          timestamptz NOT NULL,
    -- A key's id, or a service.
    actor       text NOT NULL,
    -- The name that the console's session goes by: chosen at sign-in, and no proof of anything.
    name        text,
    action      text NOT NULL,
    -- A version, an assignee, a comment or the other group's title, as the action has it.
    text        text,
    other_group uuid,
    -- The group that it was written to, if this one replaced that group.
    moved_from  uuid,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, group_id) REFERENCES groups (tenant, id) ON DELETE CASCADE
);
CREATE INDEX group_activity_group ON group_activity (tenant, group_id, at DESC, id DESC);
SELECT unslide_protect('group_activity', 'tenant', 'SELECT, INSERT');
GRANT UPDATE (group_id, moved_from) ON group_activity TO unslide_service;

-- How many reports left a group for which other ones. They decide what replaces the group when it has no reports left.
CREATE TABLE group_moves (
    tenant     text NOT NULL,
    from_group uuid NOT NULL,
    -- It may have been replaced since then.
    to_group   uuid NOT NULL,
    reports    bigint NOT NULL,
    -- The first of these reports.
    first_seen timestamptz NOT NULL,
    PRIMARY KEY (tenant, from_group, to_group),
    FOREIGN KEY (tenant, from_group) REFERENCES groups (tenant, id) ON DELETE CASCADE
);
SELECT unslide_protect('group_moves', 'tenant', 'SELECT, INSERT, UPDATE');

-- The ids of groups that were replaced. An id is a group's or is here, never both, and a target is a group: one step leads
-- to it.
CREATE TABLE group_redirects (
    tenant text NOT NULL,
    id     uuid NOT NULL,
    target uuid NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, target) REFERENCES groups (tenant, id) ON DELETE CASCADE
);
CREATE INDEX group_redirects_target ON group_redirects (tenant, target);
SELECT unslide_protect('group_redirects', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Counts by the group of a report's own fingerprint, merged or not.
CREATE TABLE group_days (
    tenant   text NOT NULL,
    group_id uuid NOT NULL,
    day      date NOT NULL,
    reports  bigint NOT NULL,
    -- HyperLogLog sketch of the devices. A report that leaves stays in it.
    devices  bytea,
    -- So that the days of many groups are read from the index alone.
    PRIMARY KEY (tenant, group_id, day) INCLUDE (reports)
);
SELECT unslide_protect('group_days', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The same by the app's version and by what the reports were made on. A value is empty if reports name none, so each
-- dimension adds up to all reports.
CREATE TABLE group_breakdowns (
    tenant    text NOT NULL,
    group_id  uuid NOT NULL,
    dimension text NOT NULL CHECK (dimension IN ('version', 'model', 'os_version')),
    value     text NOT NULL,
    day       date NOT NULL,
    reports   bigint NOT NULL,
    -- As in group_days; only of versions.
    devices   bytea,
    PRIMARY KEY (tenant, group_id, dimension, value, day)
);
-- The groups of a version. A count that changes does not touch it.
CREATE INDEX group_breakdowns_version ON group_breakdowns (tenant, value, group_id) WHERE dimension = 'version';
SELECT unslide_protect('group_breakdowns', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- One row for each device that has reports of the group's own fingerprint. A sketch would be smaller, but a report that
-- leaves could not be taken out of it.
CREATE TABLE group_devices (
    tenant   text NOT NULL,
    group_id uuid NOT NULL,
    device   bytea NOT NULL,
    reports  bigint NOT NULL,
    PRIMARY KEY (tenant, group_id, device)
);
SELECT unslide_protect('group_devices', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Search terms of groups: words of the reports with the group's own fingerprint.
CREATE TABLE group_terms (
    tenant   text NOT NULL,
    group_id uuid NOT NULL,
    -- In lower case, one a line, those of the newest reports first.
    terms    text NOT NULL CHECK (octet_length(terms) <= 16384),
    PRIMARY KEY (tenant, group_id),
    FOREIGN KEY (tenant, group_id) REFERENCES groups (tenant, id) ON DELETE CASCADE
);
SELECT unslide_protect('group_terms', 'tenant', 'SELECT, INSERT, UPDATE');
CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;
-- The trigrams of a tenant's text, as numbers that differ from those of any other tenant.
CREATE FUNCTION unslide_trigrams(tenant text, terms text) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT hashtext(tenant || ' ' || t) FROM unnest(show_trgm(terms)) t);
END $$;
REVOKE ALL ON FUNCTION unslide_trigrams(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_trigrams(text, text) TO unslide_service;

-- A search reads entries of its own tenant alone: neither its plan nor its pages tell what other tenants' groups are called.
CREATE INDEX group_terms_trigrams ON group_terms USING gin (unslide_trigrams(tenant, terms));
-- Statistics cover all tenants: with none the plan is the same for every word.
ALTER INDEX group_terms_trigrams ALTER COLUMN 1 SET STATISTICS 0;
ALTER TABLE group_terms ALTER COLUMN terms SET STATISTICS 0;
-- Under row-level security Postgres looks nothing up by LIKE, because LIKE is not leakproof. So the service asks this function,
-- which reads as the table's owner and names the tenant itself.
ALTER TABLE group_terms NO FORCE ROW LEVEL SECURITY;
CREATE FUNCTION unslide_groups_like(pattern text, how_many bigint) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    who text := current_setting('unslide.tenant', true);
    -- Those within words: what stands before and behind the text is not known. Trigrams of other characters are shown
    -- as numbers, without their positions.
    wanted integer[] := ARRAY(
        SELECT hashtext(who || ' ' || t) FROM unnest(show_trgm(regexp_replace(pattern, '[^[:ascii:]]', ' ', 'g'))) t
        WHERE strpos(t, ' ') = 0);
BEGIN
    -- Planned for the tenant, which may have few rows or nearly all.
    IF cardinality(wanted) = 0 THEN
        RETURN QUERY EXECUTE 'SELECT group_id FROM group_terms WHERE tenant = $1 AND terms LIKE $2 LIMIT $3'
        USING who, pattern, how_many;
    ELSE
        RETURN QUERY EXECUTE 'SELECT group_id FROM group_terms
            WHERE unslide_trigrams(tenant, terms) @> $4 AND tenant = $1 AND terms LIKE $2 LIMIT $3'
        USING who, pattern, how_many, wanted;
    END IF;
END $$;

-- A tenant's own rules of grouping, and how far its stored reports are grouped by them. A replay groups by what the
-- records say; to set the rules again moves the reports.
CREATE TABLE grouping_rules (
    tenant     text PRIMARY KEY REFERENCES tenants (slug),
    -- Counts the changes, from 1.
    version    bigint NOT NULL,
    text       text NOT NULL,
    -- The other text that was set last, to undo a change.
    previous   text NOT NULL DEFAULT '',
    -- Who changed them: a key's id.
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    status     text NOT NULL CHECK (status IN ('running', 'settling', 'done')),
    -- The last report of the page before.
    last       text,
    -- Reports gone through so far, those that moved to another group, and those without a readable body.
    looked     bigint NOT NULL DEFAULT 0,
    moved      bigint NOT NULL DEFAULT 0,
    unread     bigint NOT NULL DEFAULT 0
);
SELECT unslide_protect('grouping_rules', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Requests of clients to symbolicate reports again: their progress and their outcome.
CREATE TABLE reprocesses (
    id         uuid PRIMARY KEY,
    tenant     text NOT NULL REFERENCES tenants (slug),
    -- Who asked: a key's id.
    actor      text NOT NULL,
    -- Which reports: {"app": …, "version": …, "build": …, "from": …, "to": …, "debug_id": …}
    wanted     jsonb NOT NULL,
    status     text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed')),
    -- Reports that fitted when it began.
    matched    bigint NOT NULL,
    -- Reports gone through so far, and where to go on.
    looked     bigint NOT NULL DEFAULT 0,
    last       text,
    -- Requests made; and reports that had one on its way already.
    asked      bigint NOT NULL DEFAULT 0,
    under_way  bigint NOT NULL DEFAULT 0,
    -- How the requests ended.
    better     bigint NOT NULL DEFAULT 0,
    unchanged  bigint NOT NULL DEFAULT 0,
    gone       bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX reprocesses_tenant ON reprocesses (tenant, created_at DESC);
SELECT unslide_protect('reprocesses', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- MetricKit's reports of crashes that KSCrash reported too, across tenants: in the same run of the app, or, if one of the two
-- names no run, in the same process; and arrived at most `apart_days` days apart. A report that the app survived, such as a
-- hang, is no crash. In the order in which they were stored. Each way reads one row in the order of its index, however many
-- reports name one run or process.
CREATE FUNCTION unslide_crashes_told_twice(
    since timestamptz, after_id uuid, after_variant integer, apart_days integer, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer, stored_at timestamptz, same_crash_as uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT m.tenant, m.report_id, m.variant, m.stored_at, k.report_id
    FROM reports m
    CROSS JOIN LATERAL (
        SELECT f.report_id FROM (
            (SELECT o.received_at, o.report_id FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND NOT o.metric_kit AND o.fatal
               AND o.run_id = m.run_id
               AND o.received_at BETWEEN m.received_at - make_interval(days => apart_days)
                                     AND m.received_at + make_interval(days => apart_days)
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND NOT o.metric_kit AND o.fatal
               AND o.process_identity = m.process_identity AND o.run_id IS NULL
               AND o.received_at BETWEEN m.received_at - make_interval(days => apart_days)
                                     AND m.received_at + make_interval(days => apart_days)
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND NOT o.metric_kit AND o.fatal
               AND o.process_identity = m.process_identity AND (o.run_id IS NULL) IS FALSE AND m.run_id IS NULL
               AND o.received_at BETWEEN m.received_at - make_interval(days => apart_days)
                                     AND m.received_at + make_interval(days => apart_days)
             ORDER BY o.received_at, o.report_id LIMIT 1)) f
        ORDER BY f.received_at, f.report_id LIMIT 1) k
    WHERE m.metric_kit AND m.fatal AND m.same_crash_as IS NULL AND (m.run_id IS NOT NULL OR m.process_identity IS NOT NULL)
      AND m.stored_at >= since
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = m.tenant AND t.state = 'deleted')
      AND (m.stored_at, m.report_id, m.variant) > (since, after_id, after_variant)
    ORDER BY m.stored_at, m.report_id, m.variant LIMIT how_many
$$;

-- Nothing is requested for a deleted tenant. Its rows may still be there for a while.

-- Requests without an answer, across tenants: last sent before a moment, and then unanswered for as long as when they
-- were sent last, or since long before.
CREATE FUNCTION unslide_requests_overdue(
    at timestamptz, before timestamptz, long_before timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.requested_at <= before
      AND (k.requested_at <= long_before OR at - k.requested_at >= k.requested_at - coalesce(k.asked_at, k.requested_at))
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
    ORDER BY k.requested_at LIMIT how_many
$$;

-- Reports that a replay put off, across tenants.
CREATE FUNCTION unslide_asks_pending(how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.ask_pending
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
    ORDER BY k.tenant, k.report_id, k.variant LIMIT how_many
$$;

-- Reports that are due to be requested again, across tenants.
CREATE FUNCTION unslide_retries_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.retry_at <= at AND k.deleted_at IS NULL
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
    ORDER BY k.retry_at LIMIT how_many
$$;

-- Ignored groups whose time is over, across tenants.
CREATE FUNCTION unslide_ignored_groups_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT g.tenant, g.id FROM groups g
    WHERE g.ignored_until <= at
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = g.tenant AND t.state = 'deleted')
    ORDER BY g.ignored_until LIMIT how_many
$$;

-- Rows that have not seen generations of the system's symbols. A feature with such rows adds them in its own migration.
CREATE VIEW system_waiters WITH (security_invoker = true) AS
    SELECT s.tenant, s.debug_id, s.seen_generation FROM system_waits s;

-- The tenants with rows that have not seen these generations, by slug.
CREATE FUNCTION unslide_system_waits_tenants(debug_ids uuid[], generations bigint[], after text, how_many integer)
RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT w.tenant FROM unnest(debug_ids, generations) AS n (debug_id, generation)
    JOIN system_waiters w
        ON w.debug_id = n.debug_id AND w.seen_generation < n.generation
    WHERE w.tenant > after
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = w.tenant AND t.state = 'deleted')
    ORDER BY 1 LIMIT how_many
$$;

-- Symbols that reports of these days have not seen, although no request is due: no request for the report is
-- outstanding, no job wakes for the symbols, and neither the end of a replay nor a retry by time will.
CREATE FUNCTION unslide_waits_missed(
    begins timestamptz, ends timestamptz, after_tenant text, after_id uuid, how_many integer)
RETURNS TABLE (owner text, debug_id uuid, generation bigint, waits bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH waking AS MATERIALIZED (
        SELECT j.tenant, (j.payload ->> 'debug_id')::uuid AS debug_id,
               max((j.payload ->> 'generation')::bigint) AS generation
        FROM jobs j WHERE j.kind = 'wake' AND j.status IN ('queued', 'running') GROUP BY 1, 2)
    SELECT s.tenant, s.debug_id, s.generation, count(*)
    FROM symbol_slots s
    JOIN waits w ON w.tenant = s.tenant AND w.debug_id = s.debug_id AND w.seen_generation < s.generation
    -- One look-up of a key for each wait: without statistics the planner would rather look through all waits for each key.
    CROSS JOIN LATERAL (SELECT o.* FROM report_keys o
                        WHERE o.tenant = w.tenant AND o.report_id = w.report_id AND o.variant = w.variant LIMIT 1) k
    WHERE w.received_at >= begins AND w.received_at < ends AND s.quality > 0
      AND (s.tenant, s.debug_id) > (after_tenant, after_id)
      AND k.deleted_at IS NULL AND k.requested_at IS NULL AND NOT k.ask_pending
      AND NOT EXISTS (SELECT FROM jsonb_array_elements(k.retry_needs) AS n (need)
                      WHERE (n.need ->> 'debug_id')::uuid = w.debug_id
                        AND (k.retry_at IS NOT NULL OR (n.need ->> 'generation')::bigint >= s.generation))
      AND NOT EXISTS (SELECT FROM waking a WHERE a.tenant = s.tenant AND a.debug_id = s.debug_id
                                             AND a.generation >= s.generation)
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = s.tenant AND t.state = 'deleted')
    GROUP BY 1, 2, 3 ORDER BY 1, 2 LIMIT how_many
$$;

-- The same for system images, by day: symbols of the system, or of a tenant if the system has none, that a day has not
-- seen.
CREATE FUNCTION unslide_system_waits_missed(after_owner text, after_id uuid, how_many integer)
RETURNS TABLE (owner text, debug_id uuid, generation bigint, waits bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH waking AS MATERIALIZED (
        SELECT j.tenant, (j.payload ->> 'debug_id')::uuid AS debug_id,
               max((j.payload ->> 'generation')::bigint) AS generation
        FROM jobs j WHERE j.kind = 'wake' AND j.status IN ('queued', 'running') GROUP BY 1, 2
        UNION ALL
        SELECT '~system', n.debug_id, n.generation FROM system_wakes n)
    SELECT s.tenant, s.debug_id, s.generation, count(*)
    FROM symbol_slots s
    JOIN system_waits w ON w.debug_id = s.debug_id AND w.seen_generation < s.generation
                       AND (s.tenant = '~system' OR s.tenant = w.tenant)
    WHERE s.quality > 0 AND (s.tenant, s.debug_id) > (after_owner, after_id)
      AND (s.tenant = '~system' OR NOT EXISTS (
              SELECT FROM symbol_slots o WHERE o.tenant = '~system' AND o.debug_id = s.debug_id AND o.quality > 0))
      AND NOT EXISTS (SELECT FROM waking a WHERE a.tenant = s.tenant AND a.debug_id = s.debug_id
                                             AND a.generation >= s.generation)
      AND NOT EXISTS (SELECT FROM report_keys k WHERE k.tenant = w.tenant AND k.ask_pending)
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = w.tenant AND t.state = 'deleted')
    GROUP BY 1, 2, 3 ORDER BY 1, 2 LIMIT how_many
$$;

INSERT INTO purges (target, key, at_column) VALUES
    ('report_keys', 'tenant, report_id, variant', 'received_at'),
    ('report_duplicates', 'tenant, report_id, variant, origin_topic, origin_partition, origin_offset, origin_index', 'received_at');
