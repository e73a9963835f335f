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
