//! The symbol sources of a tenant, for the tenant's administrators.

pub mod list;
pub mod remove;
pub mod set;
pub mod test;

use crate::layouts::SourceLayout;
use crate::store::SourceRow;
use crate::target::SymbolSourceKind;
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::operation::{Kind, Problem};
use unslide_api::routes;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "symbol sources are for all apps of a tenant";
/// The sources that a tenant has set.
const SOURCES_LIMIT: usize = 5;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(list::list_symbol_sources, set::set_symbol_source))
        .routes(routes!(remove::remove_symbol_source))
        .routes(routes!(test::test_symbol_source))
}

/// A symbol source, without its credentials.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SymbolSource)]
pub struct ShownSource {
    /// Its name in this tenant.
    #[schema(example = "builds")]
    pub name: String,
    /// The protocol of its requests.
    pub kind: SymbolSourceKind,
    /// The layout of its files.
    pub layout: SourceLayout,
    /// The part of its address that is no secret.
    #[schema(example = "https://s3.eu-central-1.amazonaws.com/builds/dsyms")]
    pub address: String,
    /// When it answered last (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<OffsetDateTime>,
    /// When symbols of it were taken last (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub found_at: Option<OffsetDateTime>,
    /// Requests in a row that got no answer.
    #[schema(minimum = 0)]
    pub failures: i32,
    /// Why the last request failed, or why its file was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When it is asked again, after a failure (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<OffsetDateTime>,
    /// When its settings were changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

impl ShownSource {
    fn from_row(row: SourceRow) -> ShownSource {
        ShownSource {
            name: row.name,
            kind: row.kind,
            layout: row.layout,
            address: row.shown_address,
            answered_at: row.answered_at,
            found_at: row.found_at,
            failures: row.failures,
            waits_until: (row.failures > 0).then_some(row.next_ask_at),
            problem: row.problem,
            changed_at: row.changed_at,
        }
    }
}

/// The symbol sources of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SymbolSourceList {
    /// The sources, ordered by name.
    #[schema(max_items = 5)]
    pub sources: Vec<ShownSource>,
}

fn no_source() -> Problem {
    Problem::new(Kind::NotFound, "there is no such symbol source")
}
