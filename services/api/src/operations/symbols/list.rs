//! `GET /v1/symbols`.

use super::ListedObject;
use crate::access::{Access, SymbolsRead};
use crate::input::Query;
use crate::page::{List, Page, PageQuery, foreign};
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use unslide_store::cursor::ObjectCursor;
use unslide_store::symbols;

problems!(Failures: InvalidParameter);

/// List symbols
///
/// Every object that was found in an upload, newest first.
#[utoipa::path(get, path = "/v1/symbols", tag = "symbols", operation_id = "list_symbols",
    params(PageQuery),
    responses((status = 200, description = "A page of objects.", body = Page<ListedObject>), Failures),
    security(("key" = ["symbols:read"])))]
pub async fn list_symbols(
    State(api): State<Api>,
    access: Access<SymbolsRead>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<ListedObject>>, Problem> {
    let list = List::of(access.tenant(), "list_symbols", &());
    let after = match &page.cursor {
        Some(cursor) => Some(ObjectCursor::read(&list.position(cursor)?).map_err(|_| foreign())?),
        None => None,
    };
    let mut tx = api.store.tenant(access.tenant()).await?;
    let found = symbols::list(&mut tx, after.as_ref(), page.limit()?).await?;
    tx.rollback().await?;
    Ok(Json(Page {
        items: found.objects.into_iter().map(ListedObject::from).collect(),
        next_cursor: found.next.map(|next| list.cursor(&next.write())),
    }))
}
