//! The protocol: resources, filters, changes, answers and failures (RFC 7643 and 7644).

mod answer;
mod failure;
mod filter;
mod group;
mod patch;
mod user;

pub use answer::ScimAnswer;
pub use failure::ScimFailure;
pub use filter::{Comparison, parse_filter};
pub use group::{GROUP_SCHEMA, GroupForm, MEMBERS_LIMIT, MemberChange, ScimGroup, change_group, show_group};
pub use patch::read_changes;
pub use user::{ScimUser, USER_SCHEMA, UserForm, show_user};

use serde_json::Value;

/// The most bytes of a name or an id.
const TEXT_BYTES_LIMIT: usize = 255;

/// Reads an attribute that is a text. Returns `None` if it is absent or null.
///
/// # Errors
/// `invalidValue` for a text that is empty, too long or has control characters, and for other values.
fn read_text(value: Option<&Value>, name: &str) -> Result<Option<String>, ScimFailure> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if unslide_api::feature::operation::is_text(text, TEXT_BYTES_LIMIT) => {
            Ok(Some(text.clone()))
        }
        Some(_) => Err(ScimFailure::value(format!(
            "{name}: a text of 1 to {TEXT_BYTES_LIMIT} bytes without control characters is expected"
        ))),
    }
}
