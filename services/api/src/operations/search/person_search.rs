//! `GET` and `PUT /v1/person-search`: whether the tenant lets people search by the ids of persons.

use crate::operations::prelude::*;
use crate::requests::input;
use unslide_store::audit;
use unslide_store::queries::person;

/// The reason for refusing a key that speaks for one app only.
const EVERY_APP: &str = "the switch applies to the reports of every app";

/// Whether reports are found by ids of persons.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonSearchSetting {
    /// True if the id of a device, an installation or a user finds its reports and sessions.
    #[schema(example = true)]
    pub enabled: bool,
}

problems!(GetFailures: InvalidParameter);
problems!(SetFailures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// See whether ids of persons are searched
///
/// Says whether a search finds reports and sessions by the id of a device, an installation or a user. It does not unless the
/// tenant has turned it on.
#[utoipa::path(get, path = "/v1/person-search", tag = "search", operation_id = "get_person_search",
    responses((status = 200, description = "The switch.", body = PersonSearchSetting), GetFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_person_search(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<PersonSearchSetting>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(Json(PersonSearchSetting { enabled: person::is_person_search_on(&mut tx).await? }))
}

/// Turn the search by ids of persons on or off
///
/// Unslide keeps only hashes of these ids, so a search needs the whole id. The switch covers all stored reports and
/// sessions, and every key that may read reports; a key for one app finds those of its app. The audit log has the change.
#[utoipa::path(put, path = "/v1/person-search", tag = "search", operation_id = "set_person_search",
    request_body = PersonSearchSetting,
    responses((status = 200, description = "The switch as it is now.", body = PersonSearchSetting), SetFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_person_search(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    input::Json(new): input::Json<PersonSearchSetting>,
) -> Result<Json<PersonSearchSetting>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if !person::set_person_search(&mut tx, new.enabled).await? {
        return Err(Problem::internal("the tenant of a key is not there"));
    }
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"enabled": new.enabled});
    audit::append_entry(&mut tx, &actor, "person_search.set", access.tenant().as_str(), &detail).await?;
    tx.commit().await?;
    Ok(Json(new))
}
