-- The Slack app of a tenant, which posts its bugs to a channel.
CREATE TABLE slack_apps (
    tenant                text PRIMARY KEY REFERENCES tenants (slug),
    -- Names the app in the address of its requests.
    id                    uuid NOT NULL,
    -- The workspace: requests of another one are refused.
    team                  text NOT NULL,
    channel               text NOT NULL,
    -- The bot token and the signing secret, encrypted with the key of the service.
    sealed_token          bytea NOT NULL,
    sealed_signing_secret bytea NOT NULL,
    -- A group that is new since `since` is posted when it has this many reports.
    reports               bigint NOT NULL,
    -- The only app whose groups are posted.
    app                   text,
    since                 timestamptz NOT NULL,
    -- When groups that are new or have changed are looked for.
    next_look_at          timestamptz NOT NULL,
    changed_at            timestamptz NOT NULL,
    -- Until when Slack gets no request.
    not_before            timestamptz,
    -- Why the last request failed, if it concerns all groups.
    problem               text
);
CREATE INDEX slack_apps_look ON slack_apps (next_look_at);
SELECT unslide_protect('slack_apps', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The thread of a group: it has at most one.
CREATE TABLE slack_threads (
    tenant        text NOT NULL REFERENCES slack_apps (tenant) ON DELETE CASCADE,
    group_id      uuid NOT NULL,
    channel       text NOT NULL,
    -- A random text in the metadata of its messages, by which they are found again.
    marker        uuid NOT NULL,
    -- Slack's id of the first message. NULL until there is one.
    ts            text,
    -- When a request was sent that may have posted the first message, or the reply about the newest regression.
    sent_at       timestamptz,
    reply_sent_at timestamptz,
    -- The state of the group that the first message has, and the newest regression that a reply was posted for.
    told_status   text,
    told_assignee text,
    told_back_at  timestamptz,
    -- The first message was posted again, because it was deleted.
    is_renewed    boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL,
    -- When work on it was asked for last, and when it is due. NULL: none is.
    asked_at      timestamptz NOT NULL,
    due_at        timestamptz,
    attempts      integer NOT NULL DEFAULT 0,
    -- Until when a process works on it.
    leased_until  timestamptz,
    problem       text,
    PRIMARY KEY (tenant, group_id)
);
CREATE INDEX slack_threads_due ON slack_threads (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX slack_threads_created ON slack_threads (created_at);
SELECT unslide_protect('slack_threads', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('slack_threads', 'tenant, group_id', 'created_at');

-- Buttons that people pressed. The id is that of the press: Slack may send it again.
CREATE TABLE slack_actions (
    tenant      text NOT NULL REFERENCES slack_apps (tenant) ON DELETE CASCADE,
    id          bytea NOT NULL,
    slack_user  text NOT NULL,
    user_name   text NOT NULL,
    channel     text NOT NULL,
    action      text NOT NULL,
    group_id    uuid NOT NULL,
    received_at timestamptz NOT NULL,
    -- NULL: it was done or refused.
    due_at      timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX slack_actions_due ON slack_actions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX slack_actions_received ON slack_actions (received_at);
SELECT unslide_protect('slack_actions', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('slack_actions', 'tenant, id', 'received_at');

-- The accounts as which people of a workspace act, by the key of their session in the console.
CREATE TABLE slack_people (
    tenant     text NOT NULL REFERENCES slack_apps (tenant) ON DELETE CASCADE,
    team       text NOT NULL,
    slack_user text NOT NULL,
    key_id     uuid NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    name       text NOT NULL,
    ends_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant, team, slack_user)
);
CREATE INDEX slack_people_keys ON slack_people (key_id);
CREATE INDEX slack_people_ends ON slack_people (ends_at);
SELECT unslide_protect('slack_people', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('slack_people', 'tenant, team, slack_user', 'ends_at');

-- Links that were shown to people of a workspace, to be opened once in the console. A row has the hash of 256 random bits.
CREATE TABLE slack_links (
    tenant     text NOT NULL REFERENCES slack_apps (tenant) ON DELETE CASCADE,
    token_hash bytea NOT NULL CHECK (length(token_hash) = 32),
    team       text NOT NULL,
    slack_user text NOT NULL,
    user_name  text NOT NULL,
    ends_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant, token_hash)
);
CREATE INDEX slack_links_ends ON slack_links (ends_at);
SELECT unslide_protect('slack_links', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('slack_links', 'tenant, token_hash', 'ends_at');

-- The tenants with work for Slack, from the one after `after` on.
CREATE FUNCTION unslide_slack_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t JOIN slack_apps s ON s.tenant = t.slug
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
      AND (s.next_look_at <= at
           OR EXISTS (SELECT FROM slack_actions a WHERE a.tenant = t.slug AND a.due_at <= at)
           OR ((s.not_before IS NULL OR s.not_before <= at)
               AND EXISTS (SELECT FROM slack_threads d WHERE d.tenant = t.slug AND d.due_at <= at
                           AND (d.leased_until IS NULL OR d.leased_until <= at))))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;
