-- The version of the report's row in ClickHouse, if the row has moved there. NULL: the row is in `reports`, or the report has none.
ALTER TABLE report_keys ADD COLUMN history_version integer;
