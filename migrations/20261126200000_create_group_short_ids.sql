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
