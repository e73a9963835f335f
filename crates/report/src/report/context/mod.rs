//! The context of a report: the app's own keys, its breadcrumbs and its log, and the state of the app and the device.
//!
//! KSCrash writes the app's data to `user`, the log to `debug.console_log`, the state to `system`, and what its extension
//! saw of the ended process to `corpse`.

mod breadcrumbs;
mod corpse;
mod room;
mod scalar_keys;
mod state;
#[cfg(test)]
mod tests;

pub use breadcrumbs::Breadcrumb;
pub use corpse::{CorpseFact, CorpseValue};
pub use state::{AppState, DeviceState, list_state_facts};

use crate::json::Value;
use crate::report::Report;
use crate::report::memory::member::MemoryMember;
use crate::report::summary::facts::PartFacts;
use crate::text::escape_line;
use room::ContextRoom;
use std::collections::VecDeque;

/// The maximum number of keys.
const KEYS_LIMIT: usize = 200;
/// The maximum size of a key's name that is read, in bytes.
const NAME_BYTES_LIMIT: usize = 4_096;
/// The maximum number of lines of the log, the newest.
const LOG_LINES_LIMIT: usize = 500;
/// The member of `user` with the breadcrumbs.
const BREADCRUMBS_KEY: &str = "breadcrumbs";

/// The context of the main crash. Its texts are escaped, and bounded in number and size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportContext {
    /// The state of the app.
    pub app: AppState,
    /// The state of the device.
    pub device: DeviceState,
    /// The members of `user`, in their order, with their values as text.
    pub keys: Vec<ContextKey>,
    /// The newest entries of `user.breadcrumbs`, in their order.
    pub breadcrumbs: Vec<Breadcrumb>,
    /// The newest lines of `debug.console_log`.
    pub log: Vec<String>,
    /// The facts of the snapshot of a process that has ended.
    pub corpse: Vec<CorpseFact>,
    /// True if keys, breadcrumbs, lines or parts of texts were left out.
    pub truncated: bool,
}

/// A key that the app has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextKey {
    /// The key's name.
    pub name: String,
    /// Its value: the text of a string, or else JSON.
    pub value: String,
}

impl Report<'_> {
    /// Reads the context of the main crash.
    #[must_use]
    pub fn read_context(&self) -> ReportContext {
        let facts = PartFacts::for_part(self, self.main_part());
        let mut room = ContextRoom::default();
        let keys = read_keys(&facts, &mut room);
        let crumbs = facts.user_sections().find_map(|user| user.get(BREADCRUMBS_KEY));
        let breadcrumbs =
            crumbs.map(|crumbs| breadcrumbs::read_breadcrumbs(crumbs, &mut room)).unwrap_or_default();
        let corpse = corpse::read_corpse(&facts, &mut room);
        let log = read_log(&facts, &mut room);
        ReportContext {
            app: AppState::from_facts(&facts),
            device: DeviceState::from_facts(&facts),
            keys,
            breadcrumbs,
            log,
            corpse,
            truncated: room.is_cut(),
        }
    }

    /// Reads the facts of the snapshot of a process that has ended.
    pub(crate) fn read_corpse(&self) -> Vec<CorpseFact> {
        let facts = PartFacts::for_part(self, self.main_part());
        corpse::read_corpse(&facts, &mut ContextRoom::default())
    }

    /// Reads the state of the app and the device, and the keys with short values: at most 50, with names of at most 64 bytes
    /// and values of at most 128.
    #[must_use]
    pub fn read_state(&self) -> (AppState, DeviceState, Vec<ContextKey>) {
        let facts = PartFacts::for_part(self, self.main_part());
        let keys = scalar_keys::read_scalar_keys(&facts);
        (AppState::from_facts(&facts), DeviceState::from_facts(&facts), keys)
    }
}

/// Reads the members of `user`. `user_atcrash` takes precedence, and the last of two equal names.
fn read_keys(facts: &PartFacts<'_, '_>, room: &mut ContextRoom) -> Vec<ContextKey> {
    let mut keys: Vec<ContextKey> = Vec::new();
    for section in facts.user_sections() {
        let earlier = keys.len();
        section.each_member(|name, value| {
            if is_shown_elsewhere(name) || value.is_null() {
                return;
            }
            if name.len() > NAME_BYTES_LIMIT {
                room.cut();
                return;
            }
            let name = escape_line(&String::from_utf8_lossy(name)).into_owned();
            match keys.iter().position(|key| key.name == name) {
                Some(at) if at < earlier => {}
                Some(at) => keys[at] = read_key(&name, value, room),
                None if keys.len() == KEYS_LIMIT => room.cut(),
                None => keys.push(read_key(&name, value, room)),
            }
        });
    }
    keys
}

/// Returns true for the breadcrumbs, and for the stacks that some SDKs write to `user`.
fn is_shown_elsewhere(name: &[u8]) -> bool {
    let stacks =
        [MemoryMember::AllocationStacks, MemoryMember::BlockedStack, MemoryMember::Processes].map(Some);
    name == BREADCRUMBS_KEY.as_bytes() || stacks.contains(&MemoryMember::from_key(name))
}

fn read_key(name: &str, value: Value<'_>, room: &mut ContextRoom) -> ContextKey {
    let name = room.take_name(name);
    ContextKey { name, value: room.take_value(value) }
}

/// Reads the lines of the log: an array of texts, or one text.
fn read_log(facts: &PartFacts<'_, '_>, room: &mut ContextRoom) -> Vec<String> {
    let Some(log) = facts.debug_section().and_then(|debug| debug.get("console_log")) else {
        return Vec::new();
    };
    let mut newest = VecDeque::new();
    if log.as_text().is_some() {
        newest.push_back(log);
    }
    log.each_item(|line| {
        if newest.len() == LOG_LINES_LIMIT {
            newest.pop_front();
            room.cut();
        }
        newest.push_back(line);
    });
    // The newest lines are the ones that must fit.
    let mut lines: Vec<String> = Vec::new();
    for line in newest.into_iter().rev() {
        if lines.len() == LOG_LINES_LIMIT || !room.has_space() {
            room.cut();
            break;
        }
        lines.extend(room.take_lines(line, LOG_LINES_LIMIT - lines.len()));
    }
    lines.reverse();
    lines
}
