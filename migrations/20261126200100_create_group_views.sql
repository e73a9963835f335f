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
