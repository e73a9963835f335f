//! The statements about keys of App Store Connect, submissions, and the words of testers.

mod comments;
mod keys;
mod submissions;

pub use comments::{ReportSubmission, TesterComment, delete_orphans, list_for_group, list_for_report};
pub use keys::{
    InboxApp, InboxKey, NewInboxKey, PollEnd, claim_poll, finish_poll, get_key, list_apps, list_due,
    remove_key, request_poll, set_apple_id, set_key, set_reading,
};
pub use submissions::{
    InboxCounts, InboxSubmission, SubmissionState, WaitingSubmission, add_submissions, count_states,
    end_submission, list_recent, list_waiting, postpone_submission, record_sent,
};

use time::Duration;
use unslide_store::StoreHook;
use unslide_store::tables::{KeyColumn, OwnedTable, RowAge};

/// How long submissions are remembered, as ids of reports are: longer than Apple keeps their logs, so that none is taken twice.
const SUBMISSIONS_KEPT_FOR: Duration = Duration::days(400);

/// The tables of the feature.
pub const TESTFLIGHT_HOOK: StoreHook = StoreHook::with_tables(
    crate::NAME,
    &[
        OwnedTable::new("testflight_keys"),
        OwnedTable::new("testflight_apps"),
        OwnedTable::kept_for("testflight_submissions", SUBMISSIONS_KEPT_FOR),
        OwnedTable {
            key: &[KeyColumn::Value("report_id"), KeyColumn::Text("submission")],
            app: Some("app"),
            received_at: Some("received_at"),
            report: Some("report_id"),
            age: RowAge::Retention,
            ..OwnedTable::new("testflight_comments")
        },
    ],
);
