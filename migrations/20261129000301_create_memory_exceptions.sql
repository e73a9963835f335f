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
