//! Breadcrumbs: the last events before the crash, as apps write them to `user.breadcrumbs`.

use super::room::ContextRoom;
use crate::json::Value;
use crate::report::summary::device_time;
use std::collections::VecDeque;
use time::OffsetDateTime;

/// The maximum number of breadcrumbs, the newest.
const BREADCRUMBS_LIMIT: usize = 100;

/// Names of the member with the time.
const TIME_NAMES: [&str; 4] = ["timestamp", "time", "date", "at"];
/// Names of the member with the text.
const TEXT_NAMES: [&str; 4] = ["message", "text", "title", "event"];
/// Names of the member with the kind.
const KIND_NAMES: [&str; 3] = ["category", "type", "name"];

/// One event before the crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breadcrumb {
    /// The device's time.
    pub at: Option<OffsetDateTime>,
    /// The kind of event, such as `navigation`; empty if unknown.
    pub kind: String,
    /// The severity, such as `warning`; empty if unknown.
    pub level: String,
    /// The text, or else the JSON of the entry.
    pub text: String,
}

/// Reads an array of texts or objects, or an object with such an array in `values`.
pub(super) fn read_breadcrumbs(crumbs: Value<'_>, room: &mut ContextRoom) -> Vec<Breadcrumb> {
    let list = if crumbs.is_object() { crumbs.get("values").unwrap_or(crumbs) } else { crumbs };
    let mut newest = VecDeque::new();
    list.each_item(|crumb| {
        if newest.len() == BREADCRUMBS_LIMIT {
            newest.pop_front();
            room.cut();
        }
        newest.push_back(crumb);
    });
    newest.into_iter().map(|crumb| read_breadcrumb(crumb, room)).collect()
}

fn read_breadcrumb(crumb: Value<'_>, room: &mut ContextRoom) -> Breadcrumb {
    if !crumb.is_object() {
        return Breadcrumb { text: room.take_value(crumb), ..Breadcrumb::default() };
    }
    let at = first_member(crumb, TIME_NAMES).and_then(breadcrumb_time);
    let mut take = |value: Option<Value<'_>>| value.map(|value| room.take_value(value)).unwrap_or_default();
    let [level] = crumb.find_members(["level"]);
    let text = first_member(crumb, TEXT_NAMES);
    Breadcrumb {
        at,
        kind: take(first_member(crumb, KIND_NAMES)),
        level: take(level.filter(|level| !level.is_null())),
        text: take(text.or(Some(crumb))),
    }
}

fn first_member<'a, const N: usize>(object: Value<'a>, names: [&str; N]) -> Option<Value<'a>> {
    object.find_members(names).into_iter().flatten().find(|value| !value.is_null())
}

/// Reads a time as `report.timestamp`, or in seconds with a fraction.
fn breadcrumb_time(value: Value<'_>) -> Option<OffsetDateTime> {
    let seconds = || {
        let seconds = value.as_decimal().filter(|seconds| (0.0..1e11).contains(seconds))?;
        OffsetDateTime::UNIX_EPOCH.checked_add(time::Duration::checked_seconds_f64(seconds)?)
    };
    device_time(value).or_else(seconds)
}
