//! `/console/symbols`: missing symbols, uploads, and the objects in them.

use crate::components::rows;
use crate::prelude::*;
use axum::body::Body;
use http::HeaderMap;
use unslide_api::feature::operation::parse_parameter;
use unslide_api::feature::site::{SymbolQuery, list_symbols};
use unslide_api::feature::site::{SymbolsRead, SymbolsWrite};
use unslide_api::feature::site::{UploadQuery, upload_symbols};
use unslide_model::Scope;
use unslide_store::UploadId;
use unslide_store::objects::{ObjectRow, ObjectStatus};
use unslide_store::queries::missing::{self, MissingDebugId, MissingFilter};
use unslide_store::symbols::ObjectListing;
use unslide_store::uploads::{self, SymbolUpload, UploadObject, UploadStatus};

const SYMBOLS_PAGE: &str = "/console/symbols";
/// Maximum number of uploads and images in each list.
const LIST_ENTRIES: u32 = 20;

#[derive(Template)]
#[template(path = "console/pages/symbols.html", askama = escaping)]
struct SymbolsPage {
    shell: Shell,
    may_upload: bool,
    /// `None` if the key may not read reports.
    missing: Option<Vec<MissingDebugId>>,
    uploads: Vec<SymbolUpload>,
    /// The objects of the only upload that is shown; `None` if the newest ones are.
    of_upload: Option<Vec<UploadObject>>,
    objects: Vec<ObjectListing>,
    next: Option<String>,
    search: String,
    /// The app and the version that the missing images are of; empty for all.
    chosen: String,
}

impl SymbolsPage {
    /// Returns true if an upload or one of its objects is still being processed.
    fn is_building(&self) -> bool {
        let is_open =
            |upload: &SymbolUpload| !matches!(upload.status, UploadStatus::Done | UploadStatus::Failed);
        let is_queued = |listed: &ObjectListing| {
            matches!(listed.object.status, ObjectStatus::Queued | ObjectStatus::Building)
        };
        self.uploads.iter().any(is_open) || self.objects.iter().any(is_queued)
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<SymbolsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let query = SymbolQuery {
        debug_id: state.get_text("debug_id"),
        cursor: state.get_text("cursor"),
        ..SymbolQuery::default()
    };
    let Json(objects) = list_symbols(State(storage.clone()), access.clone(), Query(query)).await?;
    let only = access.only_app();
    let mut tx = storage.tenant(access.tenant()).await?;
    let wanted = state.get("upload").map(|id| parse_parameter::<UploadId>("upload", id)).transpose()?;
    let mut uploads = match wanted {
        Some(id) => uploads::find_upload(&mut tx, id).await?.into_iter().collect(),
        None => uploads::list_newest(&mut tx, LIST_ENTRIES).await?,
    };
    uploads.retain(|upload| only.is_none() || upload.app.as_deref() == only);
    let of_upload = match (wanted, uploads.as_slice()) {
        (Some(_), []) => return Err(Problem::new(Kind::NotFound, "there is no such upload")),
        (Some(id), _) => Some(uploads::uploaded::list_objects(&mut tx, id, None, Some(LIST_ENTRIES)).await?),
        (None, _) => None,
    };
    let missing = if access.principal.has_scope(Scope::ReportsRead) {
        let app = access.restrict_app(state.get_text("app"))?;
        let filter = MissingFilter { app, version: state.get_text("version"), system: false };
        Some(missing::list_missing(&mut tx, &filter, None, LIST_ENTRIES).await?)
    } else {
        None
    };
    tx.rollback();
    let search = state.get("debug_id").unwrap_or_default();
    render_html(&SymbolsPage {
        may_upload: access.principal.has_scope(Scope::SymbolsWrite),
        shell: Shell::for_viewer(signed.viewer, "symbols", "Symbols"),
        missing,
        uploads,
        of_upload,
        next: objects.next_cursor.map(|cursor| state.at_cursor(SYMBOLS_PAGE, &["debug_id"], &cursor)),
        objects: objects.items,
        search: search.to_owned(),
        chosen: ["app", "version"]
            .into_iter()
            .filter_map(|name| state.get(name))
            .collect::<Vec<_>>()
            .join(" "),
    })
}

fn upload_status(upload: &SymbolUpload) -> (&'static str, &'static str, &'static str) {
    let (class, mark) = match upload.status {
        UploadStatus::Done => ("good", "●"),
        UploadStatus::Failed => ("bad", "○"),
        _ => ("info", "◐"),
    };
    (class, mark, upload.status.as_str())
}

fn object_status(object: &ObjectRow) -> (&'static str, &'static str, String) {
    let (class, mark) = match object.status {
        ObjectStatus::Ready => ("good", "●"),
        ObjectStatus::Queued | ObjectStatus::Building => ("info", "◐"),
        _ => ("bad", "○"),
    };
    (class, mark, object.status.as_str().replace('_', " "))
}

fn offers(object: &ObjectRow) -> String {
    let offers = &object.offers;
    let offers = [
        (offers.dwarf, "DWARF"),
        (offers.symtab, "symbol table"),
        (offers.exports, "exports"),
        (offers.sources, "sources"),
    ];
    let offers: Vec<&str> = offers.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    offers.join(", ")
}

/// `POST /console/symbols/upload`: handles the form's file like `POST /v1/symbols`.
pub async fn upload_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<SymbolsWrite>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    upload_symbols(State(storage), signed.access, Query(UploadQuery::default()), headers, body).await?;
    Ok(Redirect::to(&build_link(SYMBOLS_PAGE, &[])).into_response())
}
