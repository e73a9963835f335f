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
use unslide_store::tables::OwnedTable;
use unslide_store::{Result, StoreEvent, StoreHook};

/// How long the thread of a group is followed after its first message.
const THREADS_KEPT_FOR: Duration = Duration::days(400);
/// How long pressed buttons are remembered: longer than Slack sends one again.
const ACTIONS_KEPT_FOR: Duration = Duration::days(7);

/// The tables of the feature, and its part in transactions that end the sessions of people.
pub const CHAT_HOOK: StoreHook = StoreHook {
    tables: &[
        OwnedTable::new("slack_apps"),
        OwnedTable::kept_for("slack_threads", THREADS_KEPT_FOR),
        OwnedTable::kept_for("slack_actions", ACTIONS_KEPT_FOR),
        OwnedTable::kept_for("slack_people", Duration::ZERO),
        OwnedTable::kept_for("slack_links", Duration::ZERO),
    ],
    on_event: Some(|event| Box::pin(write_for_event(event))),
    ..StoreHook::new(crate::NAME)
};

async fn write_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::SessionsEnded(tx, keys) => people::end_accounts(tx, keys).await,
        _ => Ok(()),
    }
}
