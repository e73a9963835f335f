//! `PUT /v1/scrubbing`: sets the rules of an app.

use super::{EVERY_APP, Scrubbing, check_app, compile_rules};
use crate::store::{self, APPS_LIMIT};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_scrubbing_rules::ScrubConfig;
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Rules of an app to be set.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewScrubbing {
    /// Bundle identifier of the app. Empty or absent: the apps without rules of their own.
    #[serde(default)]
    #[schema(max_length = 255, example = "com.example.shop")]
    pub app: String,
    /// The rules. Absent or null: they are removed, and the app has those of the apps without rules of their own.
    #[serde(default)]
    pub rules: Option<ScrubConfig>,
}

/// Set the rules of scrubbing
///
/// The rules take personal data out of the reports of an app before anything of them is stored: ready patterns, own patterns, and own
/// keys of the app. They hold for reports that are stored five seconds later; `POST /v1/scrubbing/apply` applies them to stored
/// reports. The records in Kafka are not changed.
#[utoipa::path(put, path = "/v1/scrubbing", tag = "scrubbing", operation_id = "set_scrubbing",
    request_body = NewScrubbing,
    responses((status = 200, description = "The rules are set.", body = Scrubbing), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_scrubbing(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewScrubbing>,
) -> Result<Json<Scrubbing>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_app(&new.app)?;
    if let Some(config) = &new.rules {
        compile_rules(config)?;
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    if !store::set_rules(&mut tx, &new.app, new.rules.as_ref()).await? {
        let detail = format!(
            "app: {APPS_LIMIT} apps of the tenant have rules, which is the limit; remove those of one of them"
        );
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    let actor = access.principal.key_id.to_string();
    let own = |rules: &ScrubConfig| rules.own.iter().map(|rule| rule.name.clone()).collect::<Vec<_>>();
    let detail = json!({
        "app": new.app,
        "ready": new.rules.as_ref().map(|rules| &rules.ready),
        "own": new.rules.as_ref().map(own),
        "keys": new.rules.as_ref().map(|rules| rules.keys.len()),
    });
    audit::append_entry(&mut tx, &actor, "scrubbing.set", &new.app, &detail).await?;
    let scrubbing = Scrubbing::load(&mut tx).await?;
    tx.commit().await?;
    Ok(Json(scrubbing))
}
