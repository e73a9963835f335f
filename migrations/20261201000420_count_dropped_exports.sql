-- Reports that did not go to the collector since its settings were set: it refused them, or they cannot be read. With the last reason.
ALTER TABLE otlp_settings
    ADD COLUMN dropped     bigint NOT NULL DEFAULT 0,
    ADD COLUMN drop_reason text;
