-- Counts of groups, which outlive the reports.

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

-- As group_days, by hour: of the last 14 days.
CREATE TABLE group_hours (
    tenant   text NOT NULL,
    group_id uuid NOT NULL,
    -- When it began.
    hour     timestamptz NOT NULL,
    reports  bigint NOT NULL,
    PRIMARY KEY (tenant, group_id, hour)
);
CREATE INDEX group_hours_age ON group_hours (hour);
SELECT unslide_protect('group_hours', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('group_hours', 'tenant, group_id, hour', 'hour');

-- What new reports add to these counts, until the indexer folds it into them: a row for each report, so that storing it touches
-- no page of the counts. A group's rows are added and folded under the lock of its row in `groups`. Nothing is ever taken back
-- here: before a report leaves a group, the group's rows are folded.
CREATE TABLE group_deltas (
    tenant     text NOT NULL,
    group_id   uuid NOT NULL,
    id         bigint GENERATED ALWAYS AS IDENTITY,
    -- The beginning of the hour in which the reports arrived.
    hour       timestamptz NOT NULL,
    version    text NOT NULL,
    model      text NOT NULL,
    os_version text NOT NULL,
    device     bytea,
    reports    bigint NOT NULL,
    added_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, group_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
-- The groups of a version.
CREATE INDEX group_deltas_version ON group_deltas (tenant, version, group_id);
SELECT unslide_protect('group_deltas', 'tenant', 'SELECT, INSERT, DELETE');

-- The counts, with what is not folded yet. A key may have several rows, of which each has a part of its reports, and either a
-- sketch or one device. A branch for each dimension, because only a plain table is searched by a group that a join finds.
CREATE VIEW group_day_counts WITH (security_invoker = true) AS
    SELECT tenant, group_id, day, reports, devices, NULL::bytea AS device FROM group_days
    UNION ALL SELECT tenant, group_id, (hour AT TIME ZONE 'UTC')::date, reports, NULL::bytea, device FROM group_deltas;
CREATE VIEW group_hour_counts WITH (security_invoker = true) AS
    SELECT tenant, group_id, hour, reports FROM group_hours
    UNION ALL SELECT tenant, group_id, hour, reports FROM group_deltas;
CREATE VIEW group_breakdown_counts WITH (security_invoker = true) AS
    SELECT tenant, group_id, dimension, value, day, reports, devices, NULL::bytea AS device FROM group_breakdowns
    UNION ALL SELECT tenant, group_id, 'version'::text, version, (hour AT TIME ZONE 'UTC')::date, reports, NULL::bytea, device
              FROM group_deltas
    UNION ALL SELECT tenant, group_id, 'model'::text, model, (hour AT TIME ZONE 'UTC')::date, reports, NULL::bytea, NULL::bytea
              FROM group_deltas
    UNION ALL SELECT tenant, group_id, 'os_version'::text, os_version, (hour AT TIME ZONE 'UTC')::date, reports, NULL::bytea, NULL::bytea
              FROM group_deltas;
GRANT SELECT ON group_day_counts, group_hour_counts, group_breakdown_counts TO unslide_service;

-- The groups with many rows, or with one from before a time, those with the oldest first.
CREATE FUNCTION unslide_deltas_due(many bigint, before timestamptz, how_many integer)
RETURNS TABLE (tenant text, group_id uuid, deltas bigint, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT d.tenant, d.group_id, d.deltas, d.oldest
    FROM (SELECT g.tenant, g.group_id, count(*) AS deltas, min(g.added_at) AS oldest FROM group_deltas g
          GROUP BY g.tenant, g.group_id HAVING count(*) >= many OR min(g.added_at) < before) d
    WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = d.tenant AND t.state = 'deleted')
      AND d.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY 4, 1, 2 LIMIT how_many
$$;

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
