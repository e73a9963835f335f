//! `GET /v1/captures/{id}`.

use super::no_capture;
use crate::capture::{CaptureAnalysis, MOST_ANALYSIS_BYTES};
use crate::keys::CaptureKeys;
use crate::operations::prelude::*;
use crate::store::{self, Capture, CaptureId};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use serde_json::value::RawValue;
use unslide_api::feature::operation::{Reservation, reserve_bytes};
use unslide_calltree::CallTree;
use unslide_model::TenantId;

/// Bytes that an analysis takes besides its trees, for each byte of its JSON.
const READ_BYTES: u64 = 4;

/// A capture with its analysis.
#[derive(Debug, Serialize, ToSchema)]
pub struct CaptureDetail {
    /// The capture.
    #[serde(flatten)]
    pub capture: Capture,
    /// The analysis, if there is one: `tree`, the heaviest nodes of the call tree; `skipped`, what was
    /// skipped; `lacking`, the images without symbols; `memory`, of a log of allocations; and `graph`, of a graph of
    /// memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub analysis: Option<Box<RawValue>>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a capture
///
/// With its analysis, once there is one.
#[utoipa::path(get, path = "/v1/captures/{id}", tag = "captures", operation_id = "get_capture",
    params(("id" = Uuid, Path, description = "The capture's id.")),
    responses((status = 200, description = "The capture.", body = CaptureDetail), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_capture(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let FoundAnalysis { capture, json, mut reservation } = analysis(&storage, &access, "id", &id).await?;
    let work = move || {
        // The text, its copy in the answer, and what is around it.
        reservation.reserve_more(json.len() as u64 * 2 + 4_096)?;
        let text = match json.as_ref() {
            [] => None,
            json => Some(std::str::from_utf8(json).map_err(Problem::internal)?.to_owned()),
        };
        let analysis = text.map(RawValue::from_string).transpose().map_err(Problem::internal)?;
        let detail = CaptureDetail { capture, analysis };
        let bytes = serde_json::to_vec(&detail).map_err(Problem::internal)?.into();
        Ok::<_, Problem>(ReservedAnswer { bytes, reservation })
    };
    let answer = storage.capacity.cpu.run_for(access.tenant(), work).await??;
    Ok(([(CONTENT_TYPE, "application/json")], answer).into_response())
}

/// A capture with the JSON of its analysis, which is empty if there is none.
pub struct FoundAnalysis {
    pub capture: Capture,
    pub json: Bytes,
    /// The reservation of its bytes, which may grow for what is made of it.
    pub reservation: Reservation,
}

impl FoundAnalysis {
    /// Reads the analysis. Bytes are reserved for it, and for each tree of its size that is made of it.
    ///
    /// # Errors
    /// If the tenant's answers have no bytes left.
    pub fn read(&mut self, trees: usize) -> Result<CaptureAnalysis, Problem> {
        self.reservation.reserve_more(self.json.len() as u64 * READ_BYTES)?;
        let analysis: CaptureAnalysis = serde_json::from_slice(&self.json).map_err(Problem::internal)?;
        let nodes = [Some(&analysis.tree), analysis.vm_tree.as_ref()].into_iter().flatten();
        let nodes: usize = nodes.map(|tree| tree.nodes.len()).sum();
        self.reservation.reserve_more(CallTree::most_bytes(trees * nodes))?;
        Ok(analysis)
    }
}

/// Finds a capture by its id, which is in the parameter `name`, and fetches its analysis.
///
/// # Errors
/// [`Kind::NotFound`]; [`Kind::InvalidParameter`] if it is no id; if the tenant's answers have no bytes left, or a server
/// does not answer.
pub async fn analysis(
    storage: &Storage,
    access: &Access<ReportsRead>,
    name: &str,
    id: &str,
) -> Result<FoundAnalysis, Problem> {
    let id: CaptureId = parse_parameter(name, id)?;
    let tenant: &TenantId = access.tenant();
    let mut tx = storage.tenant(tenant).await?;
    let capture = store::get(&mut tx, id, access.only_app()).await?;
    // It waits for object storage, and holds no connection at the same time.
    tx.rollback();
    let capture = capture.ok_or_else(no_capture)?;
    let Some(run) = capture.answer else {
        let reservation = reserve_bytes(&storage.capacity.permits, tenant, 0)?;
        return Ok(FoundAnalysis { capture, json: Bytes::new(), reservation });
    };
    let key = CaptureKeys::new(tenant, id).analysis(run);
    let size = storage.objects.head(&key).await?.map_or(0, |head| head.size);
    let reservation = reserve_bytes(&storage.capacity.permits, tenant, size)?;
    let limit = size.min(MOST_ANALYSIS_BYTES as u64);
    let found = storage.objects.get(&key, limit).await?;
    let found = found.ok_or_else(|| Problem::internal(format!("the analysis {key} is gone")))?;
    Ok(FoundAnalysis { capture, json: found.bytes, reservation })
}
