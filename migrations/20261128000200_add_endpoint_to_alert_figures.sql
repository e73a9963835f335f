-- The only endpoint of requests that a figure counts: method, host and template of the path. NULL: all of them.
ALTER TABLE alert_figures ADD COLUMN endpoint text;
