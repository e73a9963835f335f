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
