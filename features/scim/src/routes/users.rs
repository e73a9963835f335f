//! `/scim/v2/Users`: the users of the tenant of a token.

use super::request::ScimRequest;
use crate::ids::ScimUserId;
use crate::protocol::{Comparison, ScimAnswer, ScimFailure, ScimUser, UserForm, read_changes, show_user};
use crate::store::{self, DirectoryLock, UserKey};
use axum::extract::Path;
use serde_json::json;
use unslide_store::{TenantTx, audit};

/// The most users of one tenant.
const USERS_LIMIT: i64 = 50_000;

type Outcome = Result<ScimAnswer, ScimFailure>;

/// `GET /scim/v2/Users`: a page of all users, or the one that a filter finds.
pub async fn list(request: ScimRequest) -> Outcome {
    let mut tx = request.begin().await?;
    if request.filter.is_empty() {
        let page = request.page;
        let total = store::count_users(&mut tx).await?;
        let users = store::list_users(&mut tx, page.skipped(), page.count).await?;
        return Ok(ScimAnswer::list(&users.iter().map(show_user).collect::<Vec<_>>(), page.start, total));
    }
    let keys = request.filter.iter().filter_map(|comparison| match comparison.attribute.as_str() {
        "username" => Some(Some(UserKey::Name(&comparison.value))),
        "externalid" => Some(Some(UserKey::External(&comparison.value))),
        "id" => Some(comparison.value.parse().ok().map(UserKey::Id)),
        _ => None,
    });
    let key = keys.into_iter().next();
    let key = key.ok_or_else(|| ScimFailure::filter("users are found by userName, externalId or id"))?;
    let found = match key {
        Some(key) => store::find_user(&mut tx, key).await?,
        None => None,
    };
    let mut users = Vec::new();
    if let Some(user) = found
        && fulfils(&user, &request.filter)?
    {
        users.push(show_user(&user));
    }
    let total = i64::from(!users.is_empty());
    Ok(ScimAnswer::list(&users, 1, total))
}

fn fulfils(user: &ScimUser, filter: &[Comparison]) -> Result<bool, ScimFailure> {
    for Comparison { attribute, value } in filter {
        let fits = match attribute.as_str() {
            // The look-up has compared it as the database does.
            "username" => user.form.user_name.to_lowercase() == value.to_lowercase(),
            "externalid" => user.form.external_id.as_ref() == Some(value),
            "id" => value.parse().ok() == Some(user.id),
            "active" => user.form.is_active.to_string().eq_ignore_ascii_case(value),
            other => {
                return Err(ScimFailure::filter(format!("{other}: users are not found by this attribute")));
            }
        };
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn find(tx: &mut TenantTx, id: &str) -> Result<ScimUser, ScimFailure> {
    let user = match id.parse() {
        Ok(id) => store::find_user(tx, UserKey::Id(id)).await?,
        Err(_) => None,
    };
    user.ok_or_else(|| ScimFailure::not_found("user", id))
}

/// `GET /scim/v2/Users/{id}`: one user.
pub async fn show(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    let mut tx = request.begin().await?;
    Ok(ScimAnswer::Found(show_user(&find(&mut tx, &id).await?)))
}

/// `POST /scim/v2/Users`: a user who is new.
pub async fn create(request: ScimRequest) -> Outcome {
    let form = UserForm::read(&request.body, None)?;
    let mut tx = request.begin().await?;
    store::lock_directory(&mut tx, DirectoryLock::Exclusive).await?;
    check_names(&mut tx, &form, None).await?;
    if store::count_users(&mut tx).await? >= USERS_LIMIT {
        return Err(ScimFailure::too_many(format!("a tenant has at most {USERS_LIMIT} users")));
    }
    let user = store::write_user(&mut tx, None, &form).await?;
    note(&mut tx, &request, "scim_user.create", &user).await?;
    store::report_changed_users(&mut tx, &request.actor, &[user.id], None).await?;
    tx.commit().await?;
    request.forget_keys();
    Ok(ScimAnswer::Created(show_user(&user)))
}

/// `PUT /scim/v2/Users/{id}`: a whole user in place of the former one.
pub async fn replace(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    change(&id, &request, |own| UserForm::read(&request.body, Some(own))).await
}

/// `PATCH /scim/v2/Users/{id}`: changes of attributes.
pub async fn patch(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    let changes = read_changes(&request.body)?;
    change(&id, &request, |own| own.changed(&changes)).await
}

/// Changes a user. One whom nothing changes is not written.
async fn change(
    id: &str,
    request: &ScimRequest,
    build: impl FnOnce(&UserForm) -> Result<UserForm, ScimFailure>,
) -> Outcome {
    let mut tx = request.begin().await?;
    store::lock_directory(&mut tx, DirectoryLock::Exclusive).await?;
    let own = find(&mut tx, id).await?;
    let form = build(&own.form)?;
    if form == own.form {
        return Ok(ScimAnswer::Found(show_user(&own)));
    }
    check_names(&mut tx, &form, Some(own.id)).await?;
    let user = store::write_user(&mut tx, Some(own.id), &form).await?;
    note(&mut tx, request, "scim_user.change", &user).await?;
    // The person of the former id is no user any more.
    let left = own.form.external_id.as_deref().filter(|former| Some(*former) != form.external_id.as_deref());
    store::report_changed_users(&mut tx, &request.actor, &[user.id], left).await?;
    tx.commit().await?;
    request.forget_keys();
    Ok(ScimAnswer::Found(show_user(&user)))
}

/// `DELETE /scim/v2/Users/{id}`: the end of a user.
pub async fn delete(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    let mut tx = request.begin().await?;
    store::lock_directory(&mut tx, DirectoryLock::Exclusive).await?;
    let user = find(&mut tx, &id).await?;
    store::delete_user(&mut tx, user.id).await?;
    note(&mut tx, &request, "scim_user.delete", &user).await?;
    store::report_changed_users(&mut tx, &request.actor, &[user.id], None).await?;
    tx.commit().await?;
    request.forget_keys();
    Ok(ScimAnswer::Done)
}

async fn check_names(tx: &mut TenantTx, form: &UserForm, own: Option<ScimUserId>) -> Result<(), ScimFailure> {
    if store::is_taken(tx, form, own).await? {
        return Err(ScimFailure::taken("another user has this userName or externalId"));
    }
    Ok(())
}

async fn note(
    tx: &mut TenantTx,
    request: &ScimRequest,
    action: &str,
    user: &ScimUser,
) -> Result<(), ScimFailure> {
    let detail = json!({"active": user.form.is_active && action != "scim_user.delete"});
    Ok(audit::append_entry(tx, &request.actor, action, &user.id.to_string(), &detail).await?)
}
