-- A day of a device counts once.
CREATE UNIQUE INDEX IF NOT EXISTS metric_payloads_device_day ON ONLY metric_payloads (tenant, app, day_key, day)
    WHERE day_key IS NOT NULL;
