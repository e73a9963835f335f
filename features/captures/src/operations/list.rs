//! `GET /v1/captures`.

use crate::capture::CaptureKind;
use crate::operations::prelude::*;
use crate::store::{self, Capture, CaptureFilter};
use unslide_api::feature::operation::{check_texts, position_by_time, time_and_id};

/// A selection of captures. An absent parameter selects all.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CaptureQuery {
    /// Bundle identifier.
    #[param(example = "com.example.shop")]
    pub app: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// `profile`, `stack_set`, `memory_graph` or `malloc_log`.
    #[param(value_type = Option<String>)]
    pub kind: Option<CaptureKind>,
    /// Entries a page, 1 to 500; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before, as it was.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List captures
///
/// Newest first.
#[utoipa::path(get, path = "/v1/captures", tag = "captures", operation_id = "list_captures",
    params(CaptureQuery),
    responses((status = 200, description = "A page of captures.", body = Page<Capture>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_captures(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Query(query): Query<CaptureQuery>,
) -> Result<Json<Page<Capture>>, Problem> {
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let filter = CaptureFilter {
        app: access.restrict_app(query.app)?,
        version: query.version,
        kind: query.kind.map(|kind| kind.as_str().to_owned()),
    };
    let texts = [("app", filter.app.as_deref()), ("version", filter.version.as_deref())];
    check_texts(Kind::InvalidParameter, 255, texts)?;
    let list = List::for_operation(access.tenant(), "list_captures", &filter);
    let (after, limit) = (page.read_cursor(list, time_and_id)?, page.check_limit()?);
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = store::list(&mut tx, &filter, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last: &Capture| {
        position_by_time(last.received_at, last.id)
    })))
}
