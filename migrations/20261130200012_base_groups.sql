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
    -- Or a report of a version after this one: the newest when the team ignored it until the next version.
    ignored_after         text,
    -- The state before the newest change by a person, which can be taken back.
    state_before          jsonb,
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
-- The names that a person can be assigned by.
CREATE INDEX groups_assignee ON groups (tenant, assignee) WHERE assignee IS NOT NULL;
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
    -- When its author changed or deleted the comment.
    edited_at   timestamptz,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, group_id) REFERENCES groups (tenant, id) ON DELETE CASCADE
);
CREATE INDEX group_activity_group ON group_activity (tenant, group_id, at DESC, id DESC);
SELECT unslide_protect('group_activity', 'tenant', 'SELECT, INSERT');
GRANT UPDATE (group_id, moved_from, action, text, edited_at) ON group_activity TO unslide_service;

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

-- Short names of groups, to say aloud: a part of the app's name, and some letters and digits of the group's id. Rows stay
-- when a group is deleted or replaced: a name never goes to another group.
CREATE TABLE group_short_ids (
    tenant   text NOT NULL,
    short_id text NOT NULL CHECK (short_id ~ '^[0-9A-Z]{1,8}-[0-9A-Z]{4,26}$'),
    group_id uuid NOT NULL,
    PRIMARY KEY (tenant, short_id),
    UNIQUE (tenant, group_id)
);
SELECT unslide_protect('group_short_ids', 'tenant', 'SELECT, INSERT');

-- Saved views: names of filters of the list of groups, of a key or of the whole tenant.
CREATE TABLE group_views (
    tenant     text NOT NULL,
    id         uuid NOT NULL,
    -- A key's id; empty for a view of the whole tenant.
    owner      text NOT NULL,
    name       text NOT NULL,
    -- {"app": …, "status": …, …}
    filter     jsonb NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, owner, name)
);
SELECT unslide_protect('group_views', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Words that features put on a group, such as the owner of its code: lists of groups filter by them. A label goes with its group.
CREATE TABLE group_labels (
    tenant   text NOT NULL,
    group_id uuid NOT NULL,
    -- A word of the feature, a colon, and the value.
    label    text NOT NULL CHECK (octet_length(label) <= 1024),
    PRIMARY KEY (tenant, group_id, label),
    FOREIGN KEY (tenant, group_id) REFERENCES groups (tenant, id) ON DELETE CASCADE
);
CREATE INDEX group_labels_groups ON group_labels (tenant, label, group_id);
SELECT unslide_protect('group_labels', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Ignored groups whose time is over, across tenants.
CREATE FUNCTION unslide_ignored_groups_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT g.tenant, g.id FROM groups g
    WHERE g.ignored_until <= at
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = g.tenant AND t.state = 'deleted')
      AND g.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY g.ignored_until LIMIT how_many
$$;
