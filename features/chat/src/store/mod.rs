//! The statements about Slack apps, threads of groups, pressed buttons, and accounts of people.

mod actions;
mod apps;
mod people;
mod threads;

pub use actions::{NewSlackAction, SlackActionRow, add_action, claim_action};
pub use apps::{NewSlackAppRow, SlackAppRow, get_app, hold_app, list_due, remove_app, set_app};
pub use people::{
    SlackLink, SlackPerson, add_link, find_link, find_person, hash_link_token, link_person, use_link,
};
pub use threads::{
    SlackThread, ThreadEnd, add_threads, claim_thread, drop_thread, move_thread, request_update, save_thread,
};

use time::Duration;
use unslide_store::StoreHook;
use unslide_store::tables::OwnedTable;

/// How long the thread of a group is followed after its first message.
const THREADS_KEPT_FOR: Duration = Duration::days(400);
/// How long pressed buttons are remembered: longer than Slack sends one again.
const ACTIONS_KEPT_FOR: Duration = Duration::days(7);

/// The tables of the feature.
pub const CHAT_HOOK: StoreHook = StoreHook {
    tables: &[
        OwnedTable::new("slack_apps"),
        OwnedTable::kept_for("slack_threads", THREADS_KEPT_FOR),
        OwnedTable::kept_for("slack_actions", ACTIONS_KEPT_FOR),
        OwnedTable::kept_for("slack_people", Duration::ZERO),
        OwnedTable::kept_for("slack_links", Duration::ZERO),
    ],
    ..StoreHook::new(crate::NAME)
};
