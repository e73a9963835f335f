-- The place of an entry in the log of its owner: 1, 2, 3 and so on, without gaps. NULL: the entry is older than the column.
ALTER TABLE audit_log ADD COLUMN position bigint;
