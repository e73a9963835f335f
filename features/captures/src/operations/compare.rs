//! `GET /v1/captures/{id}/compare/{other}`.

use super::{FoundAnalysis, analysis};
use crate::capture::{CaptureAnalysis, CaptureComparison, NotComparable};
use crate::operations::prelude::*;
use crate::store::Capture;
use http::header::CONTENT_TYPE;

/// Two captures, and what has changed.
#[derive(Debug, Serialize, ToSchema)]
pub struct ComparedCaptures {
    /// The capture `other`.
    pub before: Capture,
    /// The capture `id`.
    pub after: Capture,
    /// What has changed from `before` to `after`: `paths`, the stacks whose own weight has changed, those that grew most
    /// first; `memory`, of logs of allocations; and `graph`, of graphs of memory: classes, regions and new leaks.
    #[schema(value_type = Object)]
    pub change: CaptureComparison,
}

problems!(Failures: InvalidParameter, NotFound);

/// Compare two captures
///
/// Both are of one app and one kind, and have an analysis. Functions that are too light for one of the analyses count for
/// their callers there. Of graphs of memory, rows of which one of the snapshots may have more than its analysis lists are
/// left out and counted.
#[utoipa::path(get, path = "/v1/captures/{id}/compare/{other}", tag = "captures", operation_id = "compare_captures",
    params(
        ("id" = Uuid, Path, description = "The capture's id."),
        ("other" = Uuid, Path, description = "The id of the capture that it is compared with, such as an earlier one.")),
    responses((status = 200, description = "What has changed.", body = ComparedCaptures), Failures),
    security(("key" = ["reports:read"])))]
pub async fn compare_captures(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path((id, other)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let pair = capture_pair(&storage, &access, &id, &other).await?;
    let work = move || {
        let mut pair = pair;
        let (_, _, change) = pair.compare()?;
        let CapturePair { before, after } = pair;
        let mut reservation = after.reservation;
        let compared = ComparedCaptures { before: before.capture, after: after.capture, change };
        let bytes = serde_json::to_vec(&compared).map_err(Problem::internal)?;
        reservation.reserve_more(bytes.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: bytes.into(), reservation })
    };
    let answer = storage.capacity.cpu.run_for(access.tenant(), work).await??;
    Ok(([(CONTENT_TYPE, "application/json")], answer).into_response())
}

/// Two captures of one app and one kind with their analyses.
pub struct CapturePair {
    /// The one that the other is compared with.
    pub before: FoundAnalysis,
    /// The one that was asked for.
    pub after: FoundAnalysis,
}

/// Finds the capture `id`, and the one that it is compared with.
///
/// # Errors
/// [`Kind::NotFound`]; [`Kind::InvalidParameter`] if they cannot be compared; as [`analysis`].
pub async fn capture_pair(
    storage: &Storage,
    access: &Access<ReportsRead>,
    id: &str,
    other: &str,
) -> Result<CapturePair, Problem> {
    let after = analysis(storage, access, "id", id).await?;
    let pair = CapturePair { after, before: analysis(storage, access, "other", other).await? };
    let CapturePair { before, after } = &pair;
    let wrong = |detail: String| Err(Problem::new(Kind::InvalidParameter, detail));
    let kind = after.capture.kind;
    if (before.capture.kind, &before.capture.app) != (kind, &after.capture.app) {
        return wrong(format!("other: it is no {kind} of {}", after.capture.app));
    }
    for (name, found) in [("id", after), ("other", before)] {
        if found.json.is_empty() {
            return wrong(format!("{name}: the capture has no analysis yet"));
        }
    }
    Ok(pair)
}

impl CapturePair {
    /// Returns both analyses, the earlier first, and what has changed.
    ///
    /// # Errors
    /// [`Kind::InvalidParameter`] if they cannot be compared, or the tenant's answers have no bytes left.
    pub fn compare(&mut self) -> Result<(CaptureAnalysis, CaptureAnalysis, CaptureComparison), Problem> {
        let kind = self.after.capture.kind;
        // The tree, and its part of a difference.
        let (before, after) = (self.before.read(3)?, self.after.read(3)?);
        let change = CaptureComparison::from_analyses(kind, &before, &after).map_err(|error| {
            let is_of_after = error == NotComparable::Opaque && after.graph.is_none();
            let name = if is_of_after { "id" } else { "other" };
            Problem::new(Kind::InvalidParameter, format!("{name}: {error}"))
        })?;
        Ok((before, after, change))
    }
}
