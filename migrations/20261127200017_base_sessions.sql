-- One row a session, for as long as reports are kept. The day is that on which the session began, which every event of
-- the session says: a repeated event finds its row in the same partition.
CREATE TABLE sessions (
    tenant       text NOT NULL,
    day          date NOT NULL,
    app          text NOT NULL,
    session_id   text NOT NULL,
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
    foreground   boolean,
    -- The reason, if the service inferred the end: {"rule": …, "confidence": …, "evidence": […]}
    judgement    jsonb,
    -- Memory limit of the app in bytes, if the session names it.
    memory_limit bigint,
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
