//! `POST /v1/public-keys/{id}/erasures`: erases what apps sent with a public key.

use super::{check_id, no_key};
use crate::erasure::{begin_erasure, count_removal};
use crate::store;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    AcceptedResponse, Access, JsonBody, Kind, Path, Problem, TenantAdmin, problems,
};
use unslide_model::SenderKeyId;
use unslide_store::key_erasures::{KeyErasure, KeyRange, MAX_OPEN_ERASURES};
use unslide_store::tables::RemovalCount;
use utoipa::ToSchema;

/// The most bytes of a version.
const MAX_VERSION_BYTES: usize = 200;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, LimitReached);

/// What is to be erased of a public key.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPublicKeyErasure)]
pub struct NewKeyErasure {
    /// The first time of arrival that is erased (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub from: OffsetDateTime,
    /// What arrived at this time or later stays (RFC 3339). Now, if it is absent or in the future.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub to: Option<OffsetDateTime>,
    /// The only version of the apps that is erased, as their reports name it; empty for reports that name none. All versions
    /// if it is absent.
    #[serde(default)]
    #[schema(max_length = 200, example = "3.0.1")]
    pub version: Option<String>,
    /// True only counts what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// Erase what came with a public key
///
/// Deletes the reports and the summaries of runs that apps sent with the key and that arrived in a range of time, also those
/// that are not stored yet. The reports are taken out of the counts of their groups, versions and devices. A builder does it;
/// `erasures` of `GET /v1/public-keys/{id}` shows what was removed. It cannot be undone. With `dry_run` nothing happens, and the
/// answer is what would be removed. Of a key 20 erasures may be under way.
#[utoipa::path(post, path = "/v1/public-keys/{id}/erasures", tag = "ingest", operation_id = "erase_public_key_reports",
    params(("id" = String, Path, description = "The key's id: 8 hexadecimal digits.", max_length = 64)),
    request_body = NewKeyErasure,
    responses(
        (status = 200, description = "A dry run: what the erasure would remove.", body = RemovalCount),
        (status = 202, description = "The erasure has begun.",
            headers(("location" = String, description = "The path of the key with its erasures.")), body = KeyErasure),
        Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn erase_public_key_reports(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
    JsonBody(new): JsonBody<NewKeyErasure>,
) -> Result<Response, Problem> {
    check_id(&id)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    store::get_key(&mut tx, &id, access.only_app()).await?.ok_or_else(no_key)?;
    let is_dry_run = new.dry_run;
    let range = check_range(&id, new, tx.now())?;
    if is_dry_run {
        return Ok(Json(count_removal(&mut tx, &range).await?).into_response());
    }
    let actor = access.principal.key_id.to_string();
    let Some(erasure) = begin_erasure(&mut tx, &range, &actor).await? else {
        let detail = format!(
            "{MAX_OPEN_ERASURES} erasures of the key are under way; wait until a builder has done some of them"
        );
        return Err(Problem::new(Kind::LimitReached, detail));
    };
    tx.commit().await?;
    let location = Some(format!("/v1/public-keys/{id}"));
    Ok(AcceptedResponse { body: erasure, location }.into_response())
}

fn check_range(id: &str, new: NewKeyErasure, now: OffsetDateTime) -> Result<KeyRange, Problem> {
    let key = SenderKeyId::parse(id).ok_or_else(no_key)?;
    let invalid = |detail: &str| Problem::new(Kind::InvalidBody, detail);
    let is_long =
        |version: &String| version.len() > MAX_VERSION_BYTES || version.chars().any(char::is_control);
    if new.version.as_ref().is_some_and(is_long) {
        return Err(invalid("version: at most 200 bytes, no control characters"));
    }
    // What arrives later is no part of the range: it would be erased although nobody has seen it.
    let end = new.to.map_or(now, |to| to.min(now));
    if new.from >= end {
        return Err(invalid("from: has to be before `to` and before now"));
    }
    Ok(KeyRange { key, begin: new.from, end, version: new.version })
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::Duration;
    use time::macros::datetime;

    #[test]
    fn a_range_ends_now_at_the_latest() {
        let now = datetime!(2026-11-27 07:00 UTC);
        let range = |from, to, version: Option<&str>| {
            check_range(
                "0a1b2c3d",
                NewKeyErasure { from, to, version: version.map(str::to_owned), dry_run: false },
                now,
            )
        };
        let hour_ago = now - Duration::HOUR;
        assert_eq!(range(hour_ago, None, None).unwrap().end, now);
        assert_eq!(range(hour_ago, Some(now + Duration::HOUR), Some("")).unwrap().end, now);
        let half = now - Duration::minutes(30);
        assert_eq!(range(hour_ago, Some(half), Some("1.0")).unwrap().end, half);
        assert!(range(now, None, None).is_err() && range(half, Some(hour_ago), None).is_err());
        assert!(range(hour_ago, None, Some("1\n")).is_err());
        assert!(range(hour_ago, None, Some(&"1".repeat(201))).is_err());
    }
}
