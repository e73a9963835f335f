-- What a look for an owner has read stays with the group, so that a new file of owners is resolved without reading a report again.
ALTER TABLE group_owners
    -- Looks that were asked for when a report was last to be read: the report is read again while this is more than `done`.
    ADD COLUMN cause_needed bigint NOT NULL DEFAULT 0,
    -- The culprit of the group when its report was read.
    ADD COLUMN culprit text CHECK (octet_length(culprit) <= 8192);
ALTER TABLE group_owners DROP CONSTRAINT group_owners_outcome_check;
ALTER TABLE group_owners ADD CONSTRAINT group_owners_outcome_check
    CHECK (outcome IN ('owned', 'cleared', 'unmatched', 'dependency', 'generated', 'unmapped', 'no_source', 'no_file', 'no_report',
                       'unreadable'));
-- Bytes that count against the tenant's limit on symbols.
ALTER TABLE owner_files ADD COLUMN size bigint NOT NULL GENERATED ALWAYS AS (octet_length(content)) STORED;
