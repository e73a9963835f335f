ALTER TABLE sessions
    -- Flags of the app with their values, as a report has its own keys: {"checkout_v2": "true"}. NULL: no event of the session carries
    -- any. An app without flags says so with {}.
    ADD COLUMN flags jsonb;
