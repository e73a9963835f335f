//! `/console/symbols`: what is missing, what was uploaded, and what was found in it.

use crate::console::components::rows::MissingLine;
use crate::console::prelude::*;
use crate::console::words::bytes;
use crate::operations::symbols::ListedObject;
use crate::operations::symbols::list::{SymbolQuery, list_symbols};
use crate::operations::symbols::upload::{UploadQuery, upload_symbols};
use crate::requests::access::{SymbolsRead, SymbolsWrite};
use axum::body::Body;
use http::HeaderMap;
use time::OffsetDateTime;
use unslide_model::Scope;
use unslide_store::objects::ObjectStatus;
use unslide_store::queries::missing::{self, MissingFilter};
use unslide_store::uploads::{self, SymbolUpload, UploadStatus};

const PATH: &str = "/console/symbols";
/// Uploads and images that the page lists.
const MOST: u32 = 20;

type Mark = (&'static str, &'static str, String);

#[derive(Template)]
#[template(path = "console/pages/symbols.html", askama = escaping)]
struct SymbolsPage {
    shell: Shell,
    may_upload: bool,
    /// `None` where the key may not read reports.
    missing: Option<Vec<MissingLine>>,
    uploads: Vec<UploadLine>,
    objects: Vec<ObjectLine>,
    next: Option<String>,
    search: String,
}

struct UploadLine {
    name: String,
    app: String,
    size: String,
    status: Mark,
    detail: String,
    began: When,
}

struct ObjectLine {
    name: String,
    arch: String,
    debug_id: String,
    kind: String,
    offers: String,
    size: String,
    status: Mark,
    reason: String,
    active: bool,
    came: When,
}

/// `GET /console/symbols`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<SymbolsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    let query = SymbolQuery {
        debug_id: state.text("debug_id"),
        cursor: state.text("cursor"),
        ..SymbolQuery::default()
    };
    let Json(objects) = list_symbols(State(api.clone()), access.clone(), Query(query)).await?;
    let only = access.only_app();
    let mut tx = api.tenant(access.tenant()).await?;
    let uploads = uploads::newest(&mut tx, MOST).await?;
    let wanted = if access.principal.may(Scope::ReportsRead) {
        let filter = MissingFilter { app: only.map(str::to_owned), ..MissingFilter::default() };
        Some(missing::list(&mut tx, &filter, None, MOST).await?)
    } else {
        None
    };
    tx.rollback();
    let uploads = uploads.iter().filter(|upload| only.is_none() || upload.app.as_deref() == only);
    let search = state.get("debug_id").unwrap_or_default();
    html(&SymbolsPage {
        may_upload: access.principal.may(Scope::SymbolsWrite),
        shell: Shell::of(signed.viewer, "symbols", "Symbols"),
        missing: wanted.map(|wanted| wanted.iter().map(|image| MissingLine::of(image, now)).collect()),
        uploads: uploads.map(|upload| upload_line(upload, now)).collect(),
        next: objects.next_cursor.map(|cursor| state.at_cursor(PATH, &["debug_id"], &cursor)),
        objects: objects.items.iter().map(|object| object_line(object, now)).collect(),
        search: search.to_owned(),
    })
}

fn upload_line(upload: &SymbolUpload, now: OffsetDateTime) -> UploadLine {
    let status = match upload.status {
        UploadStatus::Done => ("good", "●"),
        UploadStatus::Failed => ("bad", "○"),
        _ => ("info", "◐"),
    };
    UploadLine {
        name: shown_or(upload.file_name.as_deref().unwrap_or_default(), "unnamed file"),
        app: shown(upload.app.as_deref().unwrap_or_default()),
        size: upload.size.map(bytes).unwrap_or_default(),
        status: (status.0, status.1, upload.status.as_str().to_owned()),
        detail: shown(upload.detail.as_deref().unwrap_or_default()),
        began: words::when(upload.created_at, now),
    }
}

fn object_line(listed: &ListedObject, now: OffsetDateTime) -> ObjectLine {
    let object = &listed.object;
    let status = match object.status {
        ObjectStatus::Ready => ("good", "●"),
        ObjectStatus::Queued | ObjectStatus::Building => ("info", "◐"),
        _ => ("bad", "○"),
    };
    let offers = &object.offers;
    let offers = [
        (offers.dwarf, "DWARF"),
        (offers.symtab, "symbol table"),
        (offers.exports, "exports"),
        (offers.sources, "sources"),
    ];
    let offers: Vec<&str> = offers.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    ObjectLine {
        name: shown_or(&object.name, "unnamed"),
        arch: shown(&object.arch),
        debug_id: object.debug_id.map(|id| id.to_string()).unwrap_or_default(),
        kind: shown(&object.kind),
        offers: offers.join(", "),
        size: bytes(object.size),
        status: (status.0, status.1, object.status.as_str().replace('_', " ")),
        reason: shown(object.reason.as_deref().unwrap_or_default()),
        active: listed.active,
        came: words::when(object.created_at, now),
    }
}

/// `POST /console/symbols/upload`: the form's file goes the way of `POST /v1/symbols`.
pub async fn upload(
    State(api): State<Api>,
    signed: SignedIn<SymbolsWrite>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    upload_symbols(State(api), signed.access, Query(UploadQuery::default()), headers, body).await?;
    Ok(Redirect::to(&link(PATH, &[])).into_response())
}
