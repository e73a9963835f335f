//! `POST /v1/scrubbing/try`: what rules take out of a text.

use super::{EVERY_APP, check_app, compile_rules, read_rules};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_scrubbing_rules::ScrubConfig;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// The most bytes of a text that is tried.
const TEXT_BYTES: usize = 64 << 10;

/// A text and rules.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubbingTrial {
    /// The text, as an exception's reason or a line of the console would have it.
    #[schema(max_length = 65536, example = "no cart of robin@example.com")]
    pub text: String,
    /// Bundle identifier of an app: its stored rules are tried if `rules` is absent.
    #[serde(default)]
    #[schema(max_length = 255, example = "com.example.shop")]
    pub app: String,
    /// The rules; the stored ones if absent.
    #[serde(default)]
    pub rules: Option<ScrubConfig>,
}

/// A text without what rules take.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TriedScrubbing {
    /// The text that would be stored. Hashes in it are of this answer alone, and stored ones are others.
    #[schema(example = "no cart of [scrubbed:email]")]
    pub text: String,
    /// How often each rule took something, by the names of the rules.
    #[schema(example = json!({"email": 1}))]
    pub taken: BTreeMap<String, u64>,
}

/// Try rules of scrubbing on a text
///
/// Nothing is stored. The text is treated as a text of a report, so rules for own keys take nothing of it.
#[utoipa::path(post, path = "/v1/scrubbing/try", tag = "scrubbing", operation_id = "try_scrubbing",
    request_body = ScrubbingTrial,
    responses((status = 200, description = "The text as it would be stored.", body = TriedScrubbing), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn try_scrubbing(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(trial): JsonBody<ScrubbingTrial>,
) -> Result<Json<TriedScrubbing>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_app(&trial.app)?;
    if trial.text.len() > TEXT_BYTES {
        return Err(Problem::new(Kind::InvalidBody, format!("text: at most {TEXT_BYTES} bytes")));
    }
    let config = read_rules(&storage, access.tenant(), trial.rules, &trial.app).await?;
    let rules = compile_rules(&config)?;
    let scrubbed =
        storage.capacity.cpu.run_for(access.tenant(), move || rules.scrub_plain_text(&trial.text)).await?;
    Ok(Json(TriedScrubbing { text: scrubbed.text, taken: scrubbed.taken }))
}
