-- One row a session, for as long as reports are kept. The day is that on which the session began, which every event of
-- the session says: a repeated event finds its row in the same partition.
CREATE TABLE sessions (
    tenant       text NOT NULL,
    day          date NOT NULL,
    app          text NOT NULL,
    session_id   text NOT NULL,
    -- The id of the process, if the session names it.
    pid          integer,
    version      text NOT NULL,
    -- SHA-256 of what the app calls itself on this device, cut. NULL for sessions that were counted before they came.
    installation bytea CHECK (length(installation) = 16),
    -- The same of the user's id, if one was sent.
    user_hash    bytea CHECK (length(user_hash) = 16),
    os           text,
    device       text,
    started_at   timestamptz NOT NULL,
    -- NULL until an event says when or how it ended.
    ended_at     timestamptz,
    end_reason   text CHECK (end_reason IN (
        'exited', 'crashed', 'hang', 'out_of_memory', 'unexplained', 'app_upgrade', 'os_upgrade', 'reboot', 'low_battery',
        'thermal', 'cpu', 'terminated', 'unknown')),
    -- The memory exception of MetricKit that is about the end of the session. It replaces `end_reason`, which stays as it was inferred.
    memory_exception uuid,
    foreground   boolean,
    -- The reason, if the service inferred the end: {"rule": …, "confidence": …, "evidence": […]}
    judgement    jsonb,
    -- Memory limit of the app in bytes, if the session names it.
    memory_limit bigint,
    -- Flags of the app with their values, as a report has its own keys: {"checkout_v2": "true"}. NULL: no event of the session
    -- carries any. An app without flags says so with {}.
    flags        jsonb,
    -- Of sessions that were counted before they came: how many, and those of them that crashed.
    counted      integer CHECK ((counted IS NULL) <> (installation IS NULL)),
    counted_crashed integer,
    -- Weight: the number of sessions that it represents.
    weight       integer NOT NULL DEFAULT 1,
    -- The broker's time of the first event.
    received_at  timestamptz NOT NULL,
    -- The public key that the session came with. NULL for other senders.
    sender_key   text,
    PRIMARY KEY (tenant, app, session_id, day)
) PARTITION BY RANGE (day);
-- The sessions that say how much memory the app may have.
CREATE INDEX sessions_memory_limit ON sessions (tenant, app, received_at, session_id) WHERE memory_limit IS NOT NULL;
-- Sessions that did not end by themselves, as far as the service inferred: those that a memory exception may be about.
CREATE INDEX sessions_inferred ON sessions (tenant, app, version, device, started_at)
    WHERE judgement IS NOT NULL AND end_reason NOT IN ('exited', 'crashed');
-- The newest sessions of an installation, and of a user.
CREATE INDEX sessions_installation ON sessions (tenant, installation, day, session_id) WHERE installation IS NOT NULL;
CREATE INDEX sessions_user ON sessions (tenant, user_hash, day, session_id) WHERE user_hash IS NOT NULL;
CREATE INDEX sessions_sender_key ON sessions (tenant, sender_key, received_at) WHERE sender_key IS NOT NULL;
SELECT unslide_protect('sessions', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- These counts outlive the sessions. The sketches are HyperLogLog sketches of installations and of users.
CREATE TABLE session_days (
    tenant                text NOT NULL,
    app                   text NOT NULL,
    version               text NOT NULL,
    day                   date NOT NULL,
    sessions              bigint NOT NULL,
    crashed               bigint NOT NULL,
    -- Sessions that the system ended for lack of memory: in the foreground with evidence, in the foreground because nothing
    -- else explains their end, and others.
    out_of_memory         bigint NOT NULL DEFAULT 0,
    unexplained           bigint NOT NULL DEFAULT 0,
    background_memory     bigint NOT NULL DEFAULT 0,
    -- The sum of the squares of the weights of the sessions: says how many independent ones they are worth.
    squares               bigint NOT NULL DEFAULT 0,
    installations         bytea NOT NULL,
    crashed_installations bytea NOT NULL,
    users                 bytea NOT NULL,
    crashed_users         bytea NOT NULL,
    PRIMARY KEY (tenant, app, version, day)
);
-- A period is read from its newest day back, a page at a time. A count that changes touches neither index.
CREATE INDEX session_days_seen ON session_days (tenant, day DESC, app DESC, version DESC);
CREATE INDEX session_days_app_seen ON session_days (tenant, app, day DESC, version DESC);
SELECT unslide_protect('session_days', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- As `session_days`, of the last 48 hours by hour, without the installations: for rules that watch an hour, and for a chart of hours.
-- Sessions that were counted before they came have a day and no hour. A row names no person.
CREATE TABLE session_hour_counts (
    tenant            text NOT NULL,
    app               text NOT NULL,
    -- The beginning of the hour in which the sessions began.
    hour              timestamptz NOT NULL,
    version           text NOT NULL,
    sessions          bigint NOT NULL,
    crashed           bigint NOT NULL,
    out_of_memory     bigint NOT NULL,
    unexplained       bigint NOT NULL,
    background_memory bigint NOT NULL,
    squares           bigint NOT NULL,
    users             bytea NOT NULL,
    crashed_users     bytea NOT NULL,
    PRIMARY KEY (tenant, app, hour, version)
);
CREATE INDEX session_hour_counts_age ON session_hour_counts (hour);
SELECT unslide_protect('session_hour_counts', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('session_hour_counts', 'tenant, app, hour, version', 'hour');

-- One row a metric payload, for as long as reports are kept: a payload that comes again counts nothing. The day is that on
-- which its period ended, which the payload says.
CREATE TABLE metric_payloads (
    tenant      text NOT NULL,
    day         date NOT NULL,
    app         text NOT NULL,
    payload_id  text NOT NULL,
    version     text NOT NULL,
    build       text,
    os          text,
    device      text,
    -- The id of its session, if it names one.
    session_id  text,
    -- A hash of what MetricKit counted of a day of a device, if it is enough to recognise the day: equal in the payload of older
    -- systems and in the report since iOS 27. It names no person.
    day_key     bytea,
    -- Whether the report of that day was counted, with what the older payload lacks.
    is_metric_report boolean NOT NULL DEFAULT false,
    -- Of a payload with a session: the values of each metric (`SessionFigure`).
    figures     jsonb,
    measured_at timestamptz NOT NULL,
    -- The broker's time.
    received_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, app, payload_id, day)
) PARTITION BY RANGE (day);
CREATE INDEX metric_payloads_session ON metric_payloads (tenant, app, session_id, measured_at, payload_id)
    WHERE session_id IS NOT NULL;
-- A day of a device counts once.
CREATE UNIQUE INDEX metric_payloads_device_day ON metric_payloads (tenant, app, day_key, day) WHERE day_key IS NOT NULL;
SELECT unslide_protect('metric_payloads', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The apps and versions that have counts of a day: bounds how many they are, and lists them.
CREATE TABLE metric_versions (
    tenant  text NOT NULL,
    day     date NOT NULL,
    app     text NOT NULL,
    version text NOT NULL,
    PRIMARY KEY (tenant, day, app, version)
);
SELECT unslide_protect('metric_versions', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- These counts outlive the payloads. A payload counts in the row of all values together, with an empty dimension and value, and in a row
-- of its device model (`model`), of its system (`os_version`), of each state that the app reported to MetricKit, and of each host,
-- endpoint, result, protocol and fact about the connection of its requests.
CREATE TABLE metric_days (
    tenant       text NOT NULL,
    app          text NOT NULL,
    version      text NOT NULL,
    dimension    text NOT NULL CHECK (dimension IN (
        '', 'connection', 'endpoint', 'host', 'model', 'os_version', 'protocol', 'result', 'state')),
    day          date NOT NULL,
    value        text NOT NULL,
    metric       text NOT NULL,
    -- Observations, and those of them that failed, each with its weight.
    observations double precision NOT NULL,
    failed       double precision NOT NULL,
    -- The sum of the squares of what each payload added to the observations: says how many independent payloads they
    -- are worth.
    squares      double precision NOT NULL,
    -- True if some of the payloads have a weight above 1.
    sampled      boolean NOT NULL,
    -- A DDSketch of the values.
    sketch       bytea NOT NULL,
    PRIMARY KEY (tenant, app, version, dimension, day, value, metric)
);
-- Figures of versions over all values, without the rows of single values; and those of hosts.
CREATE INDEX metric_days_whole ON metric_days (tenant, app, day DESC, version DESC, metric) WHERE dimension = '';
CREATE INDEX metric_days_of_requests
    ON metric_days (tenant, app, dimension, day DESC, version DESC, value DESC, metric DESC)
    WHERE dimension IN ('connection', 'endpoint', 'host', 'protocol', 'result');
SELECT unslide_protect('metric_days', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- As `metric_days`, of the last 48 hours by hour: for all values together, for hosts and for endpoints. A row names no person.
CREATE TABLE metric_hours (
    tenant       text NOT NULL,
    app          text NOT NULL,
    dimension    text NOT NULL CHECK (dimension IN ('', 'endpoint', 'host')),
    value        text NOT NULL,
    metric       text NOT NULL,
    -- The beginning of the hour in which the period of a payload ended, as the payload says.
    hour         timestamptz NOT NULL,
    version      text NOT NULL,
    observations double precision NOT NULL,
    failed       double precision NOT NULL,
    squares      double precision NOT NULL,
    sampled      boolean NOT NULL,
    sketch       bytea NOT NULL,
    -- A figure is read by its value and metric, over hours.
    PRIMARY KEY (tenant, app, dimension, value, metric, hour, version)
);
CREATE INDEX metric_hours_age ON metric_hours (hour);
SELECT unslide_protect('metric_hours', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES
    ('metric_hours', 'tenant, app, dimension, value, metric, hour, version', 'hour');

-- Memory exceptions of MetricKit: the system says that it ended an app for lack of memory. As long as their reports are kept.
CREATE TABLE memory_exceptions (
    tenant       text NOT NULL,
    report_id    uuid NOT NULL,
    variant      integer NOT NULL,
    app          text NOT NULL,
    version      text NOT NULL,
    -- The device model.
    device       text,
    pid          integer,
    -- By the device's clock.
    at           timestamptz NOT NULL,
    -- Whether the report names its session: then no other one is looked for.
    names_session boolean NOT NULL,
    -- The session that the report names, or that was found.
    session_id   text,
    -- The day of the session, once it is joined.
    session_day  date,
    -- Whether it is joined with a session, or why not: none fits, or several fit.
    outcome      text NOT NULL CHECK (outcome IN ('joined', 'none', 'several')),
    received_at  timestamptz NOT NULL,
    sender_key   text,
    PRIMARY KEY (tenant, report_id, variant)
);
CREATE INDEX memory_exceptions_device ON memory_exceptions (tenant, app, version, device, at);
CREATE INDEX memory_exceptions_at ON memory_exceptions (tenant, app, at);
CREATE INDEX memory_exceptions_session ON memory_exceptions (tenant, app, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX memory_exceptions_received ON memory_exceptions (tenant, received_at);
SELECT unslide_protect('memory_exceptions', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Ends of apps by cause, as payloads of MetricKit's metrics count them by day. They outlive the payloads.
CREATE TABLE app_ends (
    tenant     text NOT NULL,
    app        text NOT NULL,
    version    text NOT NULL,
    -- The day on which the period of the payload ended.
    day        date NOT NULL,
    foreground boolean NOT NULL,
    cause      text NOT NULL,
    ends       bigint NOT NULL,
    PRIMARY KEY (tenant, app, day, version, foreground, cause)
);
SELECT unslide_protect('app_ends', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
