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
    -- Of a payload with a session: the values of each metric (`SessionFigure`).
    figures     jsonb,
    measured_at timestamptz NOT NULL,
    -- The broker's time.
    received_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, app, payload_id, day)
) PARTITION BY RANGE (day);
CREATE INDEX metric_payloads_session ON metric_payloads (tenant, app, session_id, measured_at, payload_id)
    WHERE session_id IS NOT NULL;
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

-- These counts outlive the payloads. A payload counts in the row of all values together, with an empty dimension
-- and value, and in a row of its device model (`model`), of its system (`os_version`), and of each host, endpoint, result and protocol of its requests.
CREATE TABLE metric_days (
    tenant       text NOT NULL,
    app          text NOT NULL,
    version      text NOT NULL,
    dimension    text NOT NULL CHECK (dimension IN ('', 'endpoint', 'host', 'model', 'os_version', 'protocol', 'result')),
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
CREATE INDEX metric_days_requests ON metric_days (tenant, app, dimension, day DESC, version DESC, value DESC, metric DESC)
    WHERE dimension IN ('endpoint', 'host', 'protocol', 'result');
SELECT unslide_protect('metric_days', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
