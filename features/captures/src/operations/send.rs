//! `POST /v1/captures`.

use super::receive::{CaptureBody, CaptureUpload, receive};
use crate::capture::{CaptureForm, CaptureKind, MallocLayout};
use crate::operations::prelude::*;
use crate::store::CaptureId;
use axum::body::Body;
use http::HeaderMap;
use std::time::Duration;
use unslide_api::feature::operation::{AcceptedResponse, Charge, is_text};
use unslide_api::feature::upload::{
    Chunks, Packing, Parts, Permit, UploadQuota, announced_length, check_quota, decode_body, packed_limit,
    parse_boundary, run_detached,
};
use unslide_model::AppSignal;
use unslide_store::{app_settings, app_signals};
use utoipa::PartialSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

/// The kind of a capture, and how it is read.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SendCaptureQuery {
    /// The app (bundle identifier) that it was recorded of. A key that speaks for one app needs none.
    #[param(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
    /// The app's version.
    #[param(max_length = 255)]
    pub version: Option<String>,
    /// The id of the session that it was recorded in, as session events and reports have it: see `GET /v1/sessions/{id}`.
    #[param(max_length = 255)]
    pub session_id: Option<String>,
    /// `profile`, `stack_set`, `memory_graph` or `malloc_log`.
    #[param(value_type = String, example = "profile")]
    pub kind: CaptureKind,
    /// How the records of a `malloc_log` are laid out: `disk`, `disk32`, `enumerator` or `index`. Needed for it.
    #[param(value_type = Option<String>)]
    pub layout: Option<MallocLayout>,
    /// The slots of a `malloc_log`'s table of stacks count references, as those of the lite mode do.
    pub lite: Option<bool>,
    /// Of a `malloc_log` what is live after this many events; without it after all.
    pub at: Option<u64>,
    /// Of a `malloc_log` also what has grown since this many events.
    pub from: Option<u64>,
}

/// A capture that was received.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedCapture {
    /// Its id.
    #[schema(value_type = Uuid)]
    pub id: CaptureId,
    /// True if the same files, to be read in the same way, were received of this app before: nothing changes.
    pub existing: bool,
}

/// The form of a request: one file that is analysed alone, or those of a log of allocations.
pub struct CaptureFiles;

impl PartialSchema for CaptureFiles {
    fn schema() -> RefOr<Schema> {
        let binary = || {
            let format = SchemaFormat::KnownFormat(KnownFormat::Binary);
            ObjectBuilder::new().schema_type(Type::String).format(Some(format))
        };
        let files = ["file", "events", "stacks", "images"];
        files.into_iter().fold(ObjectBuilder::new(), |form, file| form.property(file, binary())).into()
    }
}

impl ToSchema for CaptureFiles {}

problems!(Failures: InvalidParameter, SignalSwitchedOff, InvalidUpload, IncompleteBody, BodyTimeout, TooLarge, SymbolQuota, UnsupportedFormat);

/// Send a capture
///
/// Takes a profile (the text of `sample` or spindump, MetricKit's JSON, folded stacks), a set of stacks (the message
/// `unslide.signal.v1.StackSet`) or a graph of memory (`unslide.signal.v1.MemoryGraph`, or the text of `heap`, `leaks`,
/// `vmmap` or `footprint`) as the body, or a log of allocations as multipart/form-data with the files `events`,
/// `stacks` and, if they are known, `images`.
/// The builder analyses it with the symbols that there are, and again when others come: see
/// `GET /v1/captures/{id}`.
///
/// The body may be packed, which `Content-Encoding: gzip` or `zstd` says, or else each file may be a .gz or .zst file.
/// What is stored and counted is unpacked; zstd may use a window of 8 MiB.
///
/// The limits are those of symbols: a file over the tenant's `upload_bytes` is refused with 413, one that its
/// `symbol_bytes` have no room for with 507. The same files again change nothing, even with another `session_id`.
#[utoipa::path(post, path = "/v1/captures", tag = "captures", operation_id = "send_capture",
    params(SendCaptureQuery),
    request_body(description = "The file, or a form with its files.", content(
        (Vec<u8> = "application/octet-stream"), (CaptureFiles = "multipart/form-data"))),
    responses((status = 202, description = "The files are stored and wait for their analysis.",
            headers(("location" = String, description = "The path of the capture.")),
            body = AcceptedCapture), Failures),
    security(("key" = ["reports:write"])))]
pub async fn send_capture(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsWrite>,
    Query(query): Query<SendCaptureQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<AcceptedResponse<AcceptedCapture>, Problem> {
    // The rate goes before what asks the database.
    let admitted = AdmittedCapture::admit(&storage, &access, &headers, body).await?;
    let upload = upload(&storage, &access, query).await?;
    let (id, existing) = admitted.receive(storage, upload).await?;
    Ok(AcceptedResponse {
        body: AcceptedCapture { id, existing },
        location: Some(format!("/v1/captures/{id}")),
    })
}

/// Checks the query of an upload.
///
/// # Errors
/// [`Kind::InvalidParameter`]; [`Kind::InsufficientScope`] for another app than the key's;
/// [`Kind::SignalSwitchedOff`].
pub async fn upload(
    storage: &Storage,
    access: &Access<ReportsWrite>,
    query: SendCaptureQuery,
) -> Result<CaptureUpload, Problem> {
    let upload = CaptureUpload {
        tenant: access.tenant().clone(),
        form: form(&query)?,
        app: text("app", access.restrict_app(query.app)?.unwrap_or_default(), 1)?,
        version: text("version", query.version.unwrap_or_default(), 0)?,
        session_id: query.session_id.map(|id| text("session_id", id, 1)).transpose()?,
        may: UploadQuota::from_access(&storage.capacity, access),
    };
    check_is_kept(storage, access, &upload.app).await?;
    Ok(upload)
}

/// A capture that may be sent, with its body.
pub struct AdmittedCapture {
    pub body: CaptureBody,
    coding: Option<Packing>,
    charge: Charge,
    permit: Permit,
}

impl AdmittedCapture {
    /// Checks the limits, before any byte is read.
    ///
    /// # Errors
    /// If a limit is reached, or the body is announced in a form that is not accepted.
    pub async fn admit(
        storage: &Storage,
        access: &Access<ReportsWrite>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<AdmittedCapture, Problem> {
        let may = UploadQuota::from_access(&storage.capacity, access);
        let mut charge = Charge::for_reports(
            &storage.capacity,
            access.tenant(),
            access.principal.limits.units_per_second,
        )?;
        charge.charge_received(announced_length(headers))?;
        let permit = storage.capacity.permits.uploads.try_acquire(access.tenant(), 1)?;
        // It is looked at again when the files are there.
        let coding = Packing::from_headers(headers)?;
        let limit = coding.map_or(may.bytes, |_| packed_limit(may.bytes));
        let chunks = Chunks::new(headers, body, limit, storage.capacity.limits.client_pace())?;
        check_quota(storage, &access.symbol_owner(), announced_length(headers), may.symbol_bytes).await?;
        let pieces = decode_body(chunks.into_stream(), coding, may.bytes);
        let body = match parse_boundary(headers, Kind::InvalidUpload)? {
            Some(boundary) => CaptureBody::Form(Parts::new(pieces, boundary, Kind::InvalidUpload), None),
            None => CaptureBody::File(pieces),
        };
        Ok(AdmittedCapture { body, coding, charge, permit })
    }

    /// Receives its files. Returns the capture's id, and true if it was received before.
    ///
    /// # Errors
    /// As [`receive`], and if it takes too long.
    pub async fn receive(
        self,
        storage: Arc<Storage>,
        upload: CaptureUpload,
    ) -> Result<(CaptureId, bool), Problem> {
        // In a task of its own, as every upload: see `POST /v1/symbols`.
        let time = Duration::from_secs(storage.capacity.limits.upload_seconds);
        let work = run_detached(Box::pin(async move {
            let AdmittedCapture { body, coding, charge, permit: _permit } = self;
            let received = tokio::time::timeout(time, receive(&storage, upload, body, coding, charge)).await;
            received.unwrap_or_else(|_| Err(Problem::body_timeout(time)))
        }));
        work.await
    }
}

/// Refuses and counts a capture of an app that keeps none.
async fn check_is_kept(storage: &Storage, access: &Access<ReportsWrite>, app: &str) -> Result<(), Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    if app_settings::get(&mut tx, app).await?.signals.captures {
        return Ok(());
    }
    app_signals::count_refused(&mut tx, app, AppSignal::Captures).await?;
    tx.commit().await?;
    Err(Problem::new(Kind::SignalSwitchedOff, "captures of this app are switched off"))
}

/// Returns how the files are read.
fn form(query: &SendCaptureQuery) -> Result<CaptureForm, Problem> {
    let wrong = |detail| Err(Problem::new(Kind::InvalidParameter, detail));
    let SendCaptureQuery { kind, layout, lite, at, from, .. } = *query;
    match (kind, layout) {
        (CaptureKind::MallocLog, Some(_)) if at.is_some_and(|at| from > Some(at)) => {
            wrong("from lies after at")
        }
        (CaptureKind::MallocLog, Some(layout)) => {
            Ok(CaptureForm::MallocLog { layout, lite: lite.unwrap_or(false), at, from })
        }
        (CaptureKind::MallocLog, None) => {
            wrong("layout: a malloc_log needs one: disk, disk32, enumerator or index")
        }
        (kind, None) if lite.is_none() && at.or(from).is_none() => Ok(match kind {
            CaptureKind::StackSet => CaptureForm::StackSet,
            CaptureKind::MemoryGraph => CaptureForm::MemoryGraph,
            _ => CaptureForm::Profile,
        }),
        _ => wrong("layout, lite, at and from are for a malloc_log"),
    }
}

fn text(name: &str, text: String, least: usize) -> Result<String, Problem> {
    if is_text(&text, 255) || text.is_empty() && least == 0 {
        return Ok(text);
    }
    let detail = format!("{name}: {least} to 255 bytes, no control characters");
    Err(Problem::new(Kind::InvalidParameter, detail))
}
