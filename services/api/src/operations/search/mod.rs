//! One search for everything that a key may see.

pub mod by_id;
mod by_name;
mod by_person;
pub mod matches;
pub mod person_search;

use crate::operations::prelude::*;
use crate::panels::Panels;
use crate::requests::input::is_text;
use by_id::{find_by_id, find_by_short_id, read_id};
use matches::SearchMatch;
use unslide_store::queries::person;

/// Longest text, in bytes: ids of users and installations may be long.
const SEARCH_TEXT_BYTES: usize = 400;

/// The routes of this folder.
pub fn search_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(search))
        .routes(routes!(person_search::get_person_search, person_search::set_person_search))
}

/// The text of a search, and its app.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchQuery {
    /// An id, or a part of a name or text: 1 to 400 bytes.
    #[param(min_length = 1, max_length = 400, example = "Cart.total")]
    pub q: String,
    /// The only app (bundle identifier) to search; all apps if absent.
    #[param(example = "com.example.shop")]
    pub app: Option<String>,
}

/// The matches of a search.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SearchResults {
    /// The matches: at most 10 of each kind. Only one if the text is the id of an entry.
    #[schema(max_items = 100)]
    pub items: Vec<SearchMatch>,
    /// True if ids of devices, installations and users were searched too. The tenant decides that.
    pub person_search: bool,
}

problems!(Failures: InvalidParameter);

/// Search
///
/// Finds one entry by its id: a report, a group, an upload, an image (a debug id) or an entry of a feature, with or without
/// dashes. A group is also found by its short id. Any other text finds groups with it in their title, their reason, or the
/// name of a function or file (3 to 100 characters), apps and versions with it in their name, and the reports of the session
/// with this id. If the tenant has turned that on, the id of a device, an installation or a user finds its newest reports
/// and sessions. Every match is exact for ids. Each kind has at most 10 matches; the lists of groups and reports have all.
#[utoipa::path(get, path = "/v1/search", tag = "search", operation_id = "search",
    params(SearchQuery),
    responses((status = 200, description = "The matches.", body = SearchResults), Failures),
    security(("key" = ["reports:read"])))]
pub async fn search(
    State(storage): State<Arc<Storage>>,
    State(panels): State<Arc<Panels>>,
    access: Access<ReportsRead>,
    Query(query): Query<SearchQuery>,
) -> Result<Json<SearchResults>, Problem> {
    let text = query.q.trim();
    if !is_text(text, SEARCH_TEXT_BYTES) {
        let detail = format!("q: 1 to {SEARCH_TEXT_BYTES} bytes, no control characters");
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    let app = access.restrict_app(query.app)?;
    if app.as_ref().is_some_and(|app| !is_text(app, SEARCH_TEXT_BYTES)) {
        let detail = format!("app: 1 to {SEARCH_TEXT_BYTES} bytes, no control characters");
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    let app = app.as_deref();
    let mut tx = storage.tenant(access.tenant()).await?;
    let person_search = person::is_person_search_on(&mut tx).await?;
    let id = read_id(text);
    let entry = match id {
        Some(id) => find_by_id(&panels, &mut tx, &access, app, id).await?,
        None => find_by_short_id(&mut tx, app, text).await?,
    };
    if let Some(found) = entry {
        return Ok(Json(SearchResults { items: vec![found], person_search }));
    }
    let mut items = Vec::new();
    if id.is_none() {
        items.extend(by_name::find_groups(&mut tx, app, text).await?);
        items.extend(by_name::find_names(&mut tx, app, text).await?);
    }
    items.extend(by_person::find_by_person(&mut tx, app, text, person_search).await?);
    Ok(Json(SearchResults { items, person_search }))
}
