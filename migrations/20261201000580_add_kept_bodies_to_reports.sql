-- Whether the body of a report is kept. NULL: it is, as usual. true: it was chosen among the bodies of its group and day. false: it was
-- dropped, and the report has neither a row of report_bodies nor one of report_frames.
ALTER TABLE reports
    ADD COLUMN body_kept boolean,
    -- How many bodies the group keeps of a day, if this one was dropped for that.
    ADD COLUMN kept_bodies integer,
    -- The report of the same group that was most like it when its body was dropped. That one may be gone by now.
    ADD COLUMN like_report uuid,
    ADD COLUMN like_variant integer;
