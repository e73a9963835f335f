//! Symbols: uploads and what was found in them.

pub mod begin_upload;
mod check;
mod complete_upload;
mod delete;
mod find_upload;
mod get;
pub mod list;
pub mod upload;
mod upload_part;
mod upload_status;

use crate::openapi::for_operators;
use crate::operations::prelude::*;
use crate::requests::access::Reach;
use time::OffsetDateTime;
use unslide_model::{ContentHash, DebugId};
use unslide_store::{OwnerTx, objects, symbols};

/// The routes of this folder that answer at once: a tenant's, and those of the system's symbols, which
/// answer every tenant's reports.
pub fn routes() -> OpenApiRouter<Api> {
    of_both_owners(|| {
        OpenApiRouter::new()
            .routes(routes!(list::list_symbols))
            .routes(routes!(begin_upload::begin_upload))
            .routes(routes!(find_upload::find_upload))
            .routes(routes!(get::get_symbols, delete::delete_symbols))
    })
    .routes(routes!(check::check_symbols))
}

/// The routes that take files, for as long as they need.
pub fn upload_routes() -> OpenApiRouter<Api> {
    of_both_owners(|| {
        OpenApiRouter::new()
            .routes(routes!(upload::upload_symbols))
            .routes(routes!(upload_part::upload_part))
            .routes(routes!(complete_upload::complete_upload))
    })
}

/// The route that waits where its client asks for it.
pub fn waiting_routes() -> OpenApiRouter<Api> {
    of_both_owners(|| OpenApiRouter::new().routes(routes!(upload_status::get_upload)))
}

fn of_both_owners(routes: impl Fn() -> OpenApiRouter<Api>) -> OpenApiRouter<Api> {
    OpenApiRouter::new().nest("/v1", routes()).merge(for_operators("/v1/system", Reach::System, routes()))
}

/// True where a key for `app` may see a debug id's symbols: one of their uploads was for that app.
async fn sees_symbols(tx: &mut OwnerTx, app: Option<&str>, debug_id: &DebugId) -> Result<bool, Problem> {
    let Some(app) = app else { return Ok(true) };
    let apps = symbols::apps(tx, &[*debug_id]).await?;
    Ok(apps.contains(&(*debug_id, Some(app.to_owned()))))
}

/// One architecture of one Mach-O file.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SymbolObject {
    /// Its debug id (`LC_UUID`); absent where it has none or could not be read that far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub debug_id: Option<DebugId>,
    /// The SHA-256 of its bytes.
    #[schema(value_type = String, min_length = 64, max_length = 64)]
    pub sha256: ContentHash,
    /// Its file's name.
    #[schema(example = "Shop")]
    pub name: String,
    /// Its architecture.
    #[schema(example = "arm64")]
    pub arch: String,
    /// What kind of file it is.
    #[schema(example = "dsym")]
    pub kind: String,
    /// What it offers.
    pub offers: Offers,
    /// Bytes.
    pub size: u64,
    /// `queued`, `building`, `ready`, `malformed`, `unsupported` or `too_complex`.
    #[schema(value_type = String)]
    pub status: objects::ObjectStatus,
    /// Why it is malformed, unsupported or too complex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of the symcache that was built from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symcache_size: Option<u64>,
    /// When it first came.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// What a file says of its code.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Offers {
    /// DWARF: functions, files, lines, inlining.
    pub dwarf: bool,
    /// A symbol table.
    pub symtab: bool,
    /// Exported names.
    pub exports: bool,
    /// Sources.
    pub sources: bool,
}

impl From<objects::ObjectRow> for SymbolObject {
    fn from(object: objects::ObjectRow) -> SymbolObject {
        SymbolObject {
            debug_id: object.debug_id,
            sha256: object.content_hash,
            name: object.name,
            arch: object.arch,
            kind: object.kind,
            offers: Offers {
                dwarf: object.has_dwarf,
                symtab: object.has_symtab,
                exports: object.has_exports,
                sources: object.has_sources,
            },
            size: object.size,
            status: object.status,
            reason: object.reason,
            symcache_size: object.symcache_size,
            created_at: object.created_at,
        }
    }
}

/// An object, and whether it is the one that is asked.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ListedObject {
    /// The object.
    #[serde(flatten)]
    pub object: SymbolObject,
    /// True for the object that answers for its debug id: the one that offers most, then the newest.
    pub active: bool,
}

impl From<symbols::ObjectListing> for ListedObject {
    fn from(listed: symbols::ObjectListing) -> ListedObject {
        ListedObject { object: listed.object.into(), active: listed.active }
    }
}
