//! Groups: the reports of one bug.

mod get;
mod list;

use crate::operations::prelude::*;
use time::OffsetDateTime;
use unslide_store::Uuid;
use unslide_store::queries::groups;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list::list_groups)).routes(routes!(get::get_group))
}

/// The reports of one bug of an app. Texts come from symbols and devices.
#[derive(Debug, Serialize, ToSchema)]
pub struct Group {
    /// Its id, from the app and the fingerprint.
    pub id: Uuid,
    /// Bundle identifier; empty where unknown.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Equal for reports of the same bug, of whatever app.
    pub fingerprint: Uuid,
    /// `crash`, `exception`, `stack_overflow`, `hang`, `out_of_memory`, `termination` or `user`.
    #[schema(example = "crash")]
    pub kind: String,
    /// What it is about, in one line.
    #[schema(example = "EXC_BAD_ACCESS (KERN_INVALID_ADDRESS) in Cart.total")]
    pub title: String,
    /// The function that is to blame, and its file; absent where none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Cart.total (Cart.swift)")]
    pub culprit: Option<String>,
    /// True while the symbols of a frame that counts are missing: with them the reports move to the group of
    /// their bug.
    pub provisional: bool,
    /// Reports that it ever had; those that retention has removed still count.
    pub reports: i64,
    /// When its first report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub first_seen: OffsetDateTime,
    /// That report's version.
    pub first_version: String,
    /// When its last report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// That report's version.
    pub last_version: String,
}

impl From<groups::ListedGroup> for Group {
    fn from(group: groups::ListedGroup) -> Group {
        Group {
            id: group.id,
            app: group.app,
            fingerprint: group.fingerprint,
            kind: group.kind,
            title: group.title,
            culprit: Some(group.culprit).filter(|culprit| !culprit.is_empty()),
            provisional: group.provisional,
            reports: group.reports,
            first_seen: group.first_seen,
            first_version: group.first_version,
            last_seen: group.last_seen,
            last_version: group.last_version,
        }
    }
}
