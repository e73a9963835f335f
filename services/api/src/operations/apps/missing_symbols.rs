//! `GET /v1/missing-symbols`.

use crate::operations::prelude::*;
use crate::requests::page::{number_and_id, position_by_number};
use unslide_store::queries::missing::{self, MissingDebugId, MissingFilter};

/// Filter and page of the list of images.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MissingQuery {
    /// The only app (bundle identifier) with reports that refer to the image.
    pub app: Option<String>,
    /// The only version of the app with such reports.
    pub version: Option<String>,
    /// True lists the operating system's images too.
    pub system: Option<bool>,
    /// Entries, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List missing symbols
///
/// Lists debug ids that frames refer to and that were not uploaded: upload the dSYMs with these ids.
#[utoipa::path(get, path = "/v1/missing-symbols", tag = "apps", operation_id = "list_missing_symbols",
    params(MissingQuery),
    responses((status = 200, description = "A page of images, the most wanted first.", body = Page<MissingDebugId>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_missing_symbols(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Query(query): Query<MissingQuery>,
) -> Result<Json<Page<MissingDebugId>>, Problem> {
    let filter = MissingFilter {
        app: access.restrict_app(query.app)?.map(|app| app.replace('\0', "")),
        version: query.version.map(|version| version.replace('\0', "")),
        system: query.system.unwrap_or(false),
    };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let list = List::for_operation(access.tenant(), "list_missing_symbols", &filter);
    let after = page.read_cursor(list, number_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = missing::list_missing(&mut tx, &filter, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| {
        position_by_number(last.image.reports, last.image.debug_id)
    })))
}
