//! The owner of a group, as the last look has found it.

use super::files::OwnersFileId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use unslide_model::ReportId;
use unslide_owners_formats::{DecidingLine, OwnerOutcome, PathRewrite};
use unslide_store::{GroupId, Result, TenantTx};
use utoipa::ToSchema;

/// The frame, path and line that decided about the owner of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct OwnerExplanation {
    /// The newest version of the app in the reports of the group, as far as it was known at the look.
    #[schema(example = "4.2.0")]
    pub version: String,
    /// The frame with the culprit in the backtrace that decides the group, 0 for the innermost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<usize>,
    /// The function that grouping names as the cause. It may be inlined into the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Cart.total")]
    pub function: Option<String>,
    /// Its source file, as symbols have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "/Users/ci/build/shop/Sources/Cart/Cart.swift")]
    pub path: Option<String>,
    /// The file in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Sources/Cart/Cart.swift")]
    pub repository_path: Option<String>,
    /// The rewrite that made that path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<PathRewrite>,
    /// The version of the file of owners; empty for that of all versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_version: Option<String>,
    /// `github` or `gitlab`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "github")]
    pub dialect: Option<String>,
    /// The lines that decided: one, or with GitLab's rules one of each section.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub lines: Vec<DecidingLine>,
}

impl OwnerExplanation {
    /// Returns what was read from the report, without what the file of owners says about it.
    #[must_use]
    pub fn keep_cause(&self) -> OwnerExplanation {
        OwnerExplanation {
            version: self.version.clone(),
            frame: self.frame,
            function: self.function.clone(),
            path: self.path.clone(),
            ..OwnerExplanation::default()
        }
    }
}

/// The result of a look at a group, with what it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerLook {
    pub outcome: OwnerOutcome,
    pub owners: Vec<String>,
    pub explanation: OwnerExplanation,
    pub file: Option<OwnersFileId>,
    /// The report with its variant and revision.
    pub report: Option<(ReportId, u32, u32)>,
    /// The culprit of the group when the report was read.
    pub culprit: String,
}

/// The owner of a group as stored.
#[derive(Clone, Debug)]
pub struct GroupOwner {
    /// None until the first look has ended.
    pub outcome: Option<OwnerOutcome>,
    pub owners: Vec<String>,
    pub explanation: OwnerExplanation,
    pub report: Option<ReportId>,
    pub looked_at: Option<OffsetDateTime>,
    /// True if the next look is due.
    pub is_due: bool,
    /// Looks in a row that failed.
    pub failures: u32,
}

/// Returns the owner of a group; `None` if its app has no owners.
pub async fn get_group_owner(tx: &mut TenantTx, group: GroupId) -> Result<Option<GroupOwner>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT outcome, owners, explanation, report_id, looked_at, needed > done AS "is_due!", failures
           FROM group_owners WHERE tenant = $1 AND group_id = $2"#,
        tenant,
        group as GroupId
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| GroupOwner {
        outcome: row.outcome.as_deref().and_then(OwnerOutcome::parse),
        owners: row.owners,
        explanation: read_explanation(row.explanation),
        report: row.report_id.map(|id| ReportId(*id.as_bytes())),
        looked_at: row.looked_at,
        is_due: row.is_due,
        failures: row.failures.unsigned_abs(),
    }))
}

/// An explanation that a later version wrote reads as empty.
pub(super) fn read_explanation(stored: Option<Value>) -> OwnerExplanation {
    stored.and_then(|stored| serde_json::from_value(stored).ok()).unwrap_or_default()
}
