ALTER TABLE reports
    -- Who tells of the crash: `corpse` (an extension of the app, after its end), `handler` (the app itself), `log` (a crash log of the
    -- system) or `metric_kit`. NULL of reports of before: `metric_kit` says it.
    ADD COLUMN teller text,
    -- Whether another report may tell of the same crash: this one is not of the handler that the system runs first.
    ADD COLUMN second_telling boolean NOT NULL DEFAULT false;
