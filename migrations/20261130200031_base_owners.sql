-- Who owns the code of an app: files of owners, and which group belongs to whom.
CREATE TABLE owner_apps (
    tenant        text NOT NULL REFERENCES tenants (slug),
    -- The bundle identifier.
    app           text NOT NULL,
    -- Which path of a repository a path of a build machine is, as a list of objects with `from` and `to`.
    paths         jsonb NOT NULL DEFAULT '[]',
    -- Grows with each change of a file or of the paths.
    epoch         bigint NOT NULL,
    -- The epoch for which all groups of the app were made due, and the last group that was, if not all were.
    swept_epoch   bigint NOT NULL DEFAULT 0,
    swept_to      uuid,
    -- A transaction after the one that made the row. Groups that older ones created may be unknown here until these have ended.
    fence         xid8,
    changed_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant, app)
);
SELECT unslide_protect('owner_apps', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
CREATE INDEX owner_apps_swept ON owner_apps (tenant, changed_at) WHERE swept_epoch < epoch;

CREATE TABLE owner_files (
    id          uuid PRIMARY KEY,
    tenant      text NOT NULL,
    app         text NOT NULL,
    -- Empty for the file of all versions without one of their own.
    version     text NOT NULL,
    dialect     text NOT NULL CHECK (dialect IN ('github', 'gitlab')),
    -- The file as it was uploaded.
    content     text NOT NULL CHECK (octet_length(content) <= 3000000),
    -- Bytes that count against the tenant's limit on symbols.
    size        bigint NOT NULL GENERATED ALWAYS AS (octet_length(content)) STORED,
    rules       bigint NOT NULL,
    -- How many lines are invalid, and the first of them.
    problems    bigint NOT NULL,
    first_problems jsonb NOT NULL,
    uploaded_at timestamptz NOT NULL,
    UNIQUE (tenant, app, version),
    FOREIGN KEY (tenant, app) REFERENCES owner_apps (tenant, app) ON DELETE CASCADE
);
SELECT unslide_protect('owner_files', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The owner of a group, and whether it is to be looked for again. A row goes with its group.
CREATE TABLE group_owners (
    tenant      text NOT NULL,
    group_id    uuid NOT NULL,
    app         text NOT NULL,
    -- Looks that were asked for, and those of them that the result has answered. The group is due while they differ.
    needed      bigint NOT NULL,
    done        bigint NOT NULL DEFAULT 0,
    -- Looks that were asked for when a report was last to be read: the report is read again while this is more than `done`. What a look
    -- has read stays with the group, so that a new file of owners is resolved without reading a report again.
    cause_needed bigint NOT NULL DEFAULT 0,
    -- The culprit of the group when its report was read.
    culprit     text CHECK (octet_length(culprit) <= 8192),
    -- When a process may look.
    next_look_at timestamptz NOT NULL,
    -- Looks in a row that failed.
    failures    integer NOT NULL DEFAULT 0,
    -- NULL until the first look has ended.
    outcome     text CHECK (outcome IN ('owned', 'cleared', 'unmatched', 'dependency', 'generated', 'unmapped', 'no_source',
                                        'no_file', 'no_report', 'unreadable')),
    owners      text[] NOT NULL DEFAULT '{}' CHECK (cardinality(owners) <= 20),
    -- The frame, the path and the lines that decided.
    explanation jsonb CHECK (octet_length(explanation::text) <= 32768),
    -- What the result is made of.
    file_id     uuid,
    report_id   uuid,
    variant     integer,
    revision    integer,
    looked_at   timestamptz,
    PRIMARY KEY (tenant, group_id),
    FOREIGN KEY (tenant, group_id) REFERENCES groups (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, app) REFERENCES owner_apps (tenant, app) ON DELETE CASCADE
);
CREATE INDEX group_owners_due ON group_owners (tenant, next_look_at, group_id) WHERE needed > done;
CREATE INDEX group_owners_report ON group_owners (tenant, report_id) WHERE report_id IS NOT NULL;
CREATE INDEX group_owners_app ON group_owners (tenant, app, outcome);
SELECT unslide_protect('group_owners', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The tenants with groups whose owner is to be looked for, from the one after `after` on. One tenant's backlog costs the others nothing.
CREATE FUNCTION unslide_owners_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND t.slug IN (SELECT a.tenant FROM owner_apps a)
      AND (EXISTS (SELECT FROM owner_apps a WHERE a.tenant = t.slug AND a.swept_epoch < a.epoch)
           OR EXISTS (SELECT FROM group_owners g WHERE g.tenant = t.slug AND g.needed > g.done AND g.next_look_at <= at))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;
