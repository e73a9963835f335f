ALTER TABLE metric_payloads
    -- A hash of what MetricKit counted of a day of a device, if it is enough to recognise the day: equal in the payload of older systems and
    -- in the report since iOS 27. It names no person.
    ADD COLUMN day_key bytea,
    -- Whether the report of that day was counted, with what the older payload lacks.
    ADD COLUMN is_metric_report boolean NOT NULL DEFAULT false;
