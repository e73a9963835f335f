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
    -- What the request is about: [[debug id, generation], …]
    requested_needs    jsonb,
    -- Whether newer symbols exist is still to be asked: set while a replay is under way.
    ask_pending        boolean NOT NULL DEFAULT false,
    conflicted         boolean NOT NULL DEFAULT false,
    -- Deleted reports are remembered, so that a replay does not bring them back.
    deleted_at         timestamptz,
    PRIMARY KEY (tenant, report_id, variant),
    UNIQUE (tenant, report_id, content_hash)
) PARTITION BY HASH (tenant, report_id);
CREATE INDEX report_keys_requested ON report_keys (requested_at) WHERE requested_at IS NOT NULL;
CREATE INDEX report_keys_pending ON report_keys (tenant, report_id, variant) WHERE ask_pending;
CREATE INDEX report_keys_age ON report_keys USING brin (received_at);
DO $$
BEGIN
    FOR i IN 0..15 LOOP
        EXECUTE format('CREATE TABLE report_keys_%s PARTITION OF report_keys FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i);
        EXECUTE format('ALTER TABLE report_keys_%s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', i);
    END LOOP;
END $$;
SELECT unslide_protect('report_keys', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

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
    -- What a list shows beside the reason: exception, signal, top frames.
    summary             jsonb NOT NULL,
    frames_total        integer NOT NULL,
    frames_symbolicated integer NOT NULL,
    frames_device       integer NOT NULL,
    frames_missing      integer NOT NULL,
    system_images       uuid[] NOT NULL,
    -- The first record of the report's history and its trace, for whoever symbolicates it again.
    origin_topic        text,
    origin_partition    integer,
    origin_offset       bigint,
    traceparent         text,
    stored_at           timestamptz NOT NULL,
    PRIMARY KEY (tenant, received_at, report_id, variant)
) PARTITION BY RANGE (received_at);
CREATE INDEX reports_app ON reports (tenant, app, received_at, report_id, variant);
CREATE INDEX reports_version ON reports (tenant, app, version, received_at, report_id, variant);
SELECT unslide_protect('reports', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The latest revision's bytes: an lz4 block behind its length.
CREATE TABLE report_bodies (
    tenant      text NOT NULL,
    received_at timestamptz NOT NULL,
    report_id   uuid NOT NULL,
    variant     integer NOT NULL,
    revision    integer NOT NULL,
    size        bigint NOT NULL,
    body        bytea NOT NULL,
    PRIMARY KEY (tenant, received_at, report_id, variant)
) PARTITION BY RANGE (received_at);
-- It is compressed already.
ALTER TABLE report_bodies ALTER COLUMN body SET STORAGE EXTERNAL;
SELECT unslide_protect('report_bodies', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

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
SELECT unslide_protect('system_waits', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE app_days (
    tenant              text NOT NULL,
    app                 text NOT NULL,
    version             text NOT NULL,
    day                 date NOT NULL,
    reports             bigint NOT NULL,
    -- Devices that this version crashed on for the first time on this day: the sum over days is exact.
    devices             bigint NOT NULL,
    frames_total        bigint NOT NULL,
    frames_symbolicated bigint NOT NULL,
    -- Reports by status.
    complete            bigint NOT NULL,
    partial             bigint NOT NULL,
    none                bigint NOT NULL,
    PRIMARY KEY (tenant, app, version, day)
);
SELECT unslide_protect('app_days', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE app_devices (
    tenant  text NOT NULL,
    app     text NOT NULL,
    version text NOT NULL,
    device  bytea NOT NULL,
    day     date NOT NULL,
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
