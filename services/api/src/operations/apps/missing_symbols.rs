//! `GET /v1/missing-symbols`.

use super::MissingImage;
use crate::access::{Access, ReportsRead};
use crate::input::Query;
use crate::page::PageQuery;
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_store::queries::missing;
use utoipa::{IntoParams, ToSchema};

/// Which images to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MissingQuery {
    /// Bundle identifier.
    pub app: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// True lists the operating system's images too.
    pub system: Option<bool>,
    /// Entries, 1 to 500; 50 where absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// The debug ids that reports wait for.
#[derive(Debug, Serialize, ToSchema)]
pub struct MissingSymbols {
    /// The images, the most wanted first.
    pub items: Vec<MissingSymbol>,
}

/// A debug id that reports wait for.
#[derive(Debug, Serialize, ToSchema)]
pub struct MissingSymbol {
    /// The image.
    #[serde(flatten)]
    pub image: MissingImage,
    /// True for an image of the operating system.
    pub system: bool,
    /// The apps whose reports refer to it.
    pub apps: Vec<String>,
    /// The versions whose reports refer to it, at most 50.
    pub versions: Vec<String>,
    /// When such a report came first.
    #[serde(with = "time::serde::rfc3339")]
    pub first_seen: OffsetDateTime,
    /// When such a report came last.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
}

problems!(Failures: InvalidParameter);

/// List missing symbols
///
/// The debug ids that frames refer to and nobody has uploaded: the dSYMs to look for.
#[utoipa::path(get, path = "/v1/missing-symbols", tag = "apps", operation_id = "list_missing_symbols",
    params(MissingQuery),
    responses((status = 200, description = "The images, the most wanted first.", body = MissingSymbols), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_missing_symbols(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Query(query): Query<MissingQuery>,
) -> Result<Json<MissingSymbols>, Problem> {
    let app = access.app(query.app)?.map(|app| app.replace('\0', ""));
    let version = query.version.map(|version| version.replace('\0', ""));
    let limit = PageQuery { limit: query.limit, cursor: None }.limit()?;
    let system = query.system.unwrap_or(false);
    let mut tx = api.tenant(access.tenant()).await?;
    let found = missing::list(&mut tx, app.as_deref(), version.as_deref(), system, limit).await?;
    tx.rollback().await?;
    let items = found.into_iter().map(|missing| MissingSymbol {
        image: missing.image.into(),
        system: missing.system,
        apps: missing.apps,
        versions: missing.versions,
        first_seen: missing.first_seen,
        last_seen: missing.last_seen,
    });
    Ok(Json(MissingSymbols { items: items.collect() }))
}
