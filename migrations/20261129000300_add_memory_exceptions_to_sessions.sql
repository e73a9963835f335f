ALTER TABLE sessions
    -- The id of the process, if the session names it.
    ADD COLUMN pid integer,
    -- The memory exception of MetricKit that is about the end of the session. It replaces `end_reason`, which stays as it was inferred.
    ADD COLUMN memory_exception uuid;
