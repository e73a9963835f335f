-- The directory of a tenant: users and groups as its identity provider sends them (SCIM 2.0).

-- A user who was deleted stays as a row with nothing but its ids, so that the person cannot sign in.
CREATE TABLE scim_users (
    tenant      text NOT NULL REFERENCES tenants (slug),
    id          uuid NOT NULL,
    -- Empty once the user is deleted.
    user_name   text NOT NULL,
    -- The provider's id of the person, which tokens name. NULL: the user fits no person.
    external_id text,
    is_active   boolean NOT NULL,
    -- Name, displayed name and addresses of mail, as the provider sent them.
    attributes  jsonb NOT NULL,
    created_at  timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX scim_users_name ON scim_users (tenant, lower(user_name)) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX scim_users_external ON scim_users (tenant, external_id) WHERE deleted_at IS NULL;
CREATE INDEX scim_users_former ON scim_users (tenant, external_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX scim_users_deleted ON scim_users (deleted_at) WHERE deleted_at IS NOT NULL;
SELECT unslide_protect('scim_users', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('scim_users', 'tenant, id', 'deleted_at');

CREATE TABLE scim_groups (
    tenant       text NOT NULL REFERENCES tenants (slug),
    id           uuid NOT NULL,
    display_name text NOT NULL,
    external_id  text,
    created_at   timestamptz NOT NULL,
    changed_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX scim_groups_name ON scim_groups (tenant, lower(display_name));
SELECT unslide_protect('scim_groups', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE scim_members (
    tenant   text NOT NULL,
    group_id uuid NOT NULL,
    user_id  uuid NOT NULL,
    PRIMARY KEY (tenant, group_id, user_id),
    FOREIGN KEY (tenant, group_id) REFERENCES scim_groups (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, user_id) REFERENCES scim_users (tenant, id) ON DELETE CASCADE
);
CREATE INDEX scim_members_user ON scim_members (tenant, user_id);
SELECT unslide_protect('scim_members', 'tenant', 'SELECT, INSERT, DELETE, UPDATE');
