-- The counts of the last 48 hours by hour, beside those of days: for rules that watch an hour, and for a chart of hours.
-- `unslide_purge` removes older rows. A row names no person.

-- As `metric_days`, for all values together, for hosts and for endpoints.
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

-- As `session_days`, without the installations. Sessions that were counted before they came have a day and no hour.
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

INSERT INTO purges (target, key, at_column) VALUES
    ('metric_hours', 'tenant, app, dimension, value, metric, hour, version', 'hour'),
    ('session_hour_counts', 'tenant, app, hour, version', 'hour');
