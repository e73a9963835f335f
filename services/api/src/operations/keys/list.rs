//! `GET /v1/keys`.

use crate::operations::prelude::*;
use crate::requests::page::{position_by_time, time_and_id};
use crate::storage::transactions::Tx;
use time::OffsetDateTime;
use unslide_store::keys::{self, ApiKey};
use unslide_store::{TenantTx, Uuid};

problems!(Failures: InvalidParameter);

/// List the own tenant's keys
///
/// Lists the keys, oldest first, with revoked and expired ones. The service does not store their texts. A key
/// for one app sees the keys of that app.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", operation_id = "list_keys",
    params(PageQuery),
    responses((status = 200, description = "A page of keys.", body = Page<ApiKey>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_keys(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<ApiKey>>, Problem> {
    let app = access.principal.app.as_deref();
    let list = List::for_operation(access.tenant(), "list_keys", &app);
    // A wrong cursor is refused before the database is queried.
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let tx = storage.tenant(access.tenant()).await?;
    list_key_page(tx, app, after, limit, list).await
}

/// Returns a page of the tenant's keys; with `app`, only those that are restricted to it.
pub async fn list_key_page(
    mut tx: Tx<TenantTx>,
    app: Option<&str>,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
    list: List,
) -> Result<Json<Page<ApiKey>>, Problem> {
    let found = keys::list_keys(&mut tx, app, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| position_by_time(last.created_at, last.id))))
}
