//! `POST /v1/scrubbing/preview`: what rules would take out of the newest reports of an app.

use super::{EVERY_APP, check_app, compile_rules, read_rules};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use time::Duration;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Access, JsonBody, Problem, TenantAdmin, problems};
use unslide_api::feature::site::stored_body::{self, StoredBody};
use unslide_model::ReportId;
use unslide_scrubbing_rules::{ScrubConfig, ScrubRules};
use unslide_store::queries::report::find_listed;
use unslide_store::queries::reports::{ReportFilter, list_reports};
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Reports that are looked at.
const SAMPLED_REPORTS_LIMIT: u32 = 20;
/// How far back they are looked for.
const SAMPLED_PERIOD: Duration = Duration::DAY;
/// Texts of a report that are shown, and the characters of each.
const SHOWN_TEXTS_LIMIT: usize = 5;
const SHOWN_CHARS_LIMIT: usize = 300;

/// Rules for a preview.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubbingPreviewQuery {
    /// Bundle identifier of the app. Empty or absent: the newest reports of all apps.
    #[serde(default)]
    #[schema(max_length = 255, example = "com.example.shop")]
    pub app: String,
    /// The rules; the stored ones of the app if absent.
    #[serde(default)]
    pub rules: Option<ScrubConfig>,
}

/// The texts that rules would take out of stored reports.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ScrubbingPreview {
    /// The number of reports that were looked at: the newest of the last day, at most 20.
    #[schema(minimum = 0)]
    pub sample: usize,
    /// How often each rule would take something, by the names of the rules.
    #[schema(example = json!({"email": 3}))]
    pub taken: BTreeMap<String, u64>,
    /// The reports of the sample out of which something would be taken.
    #[schema(max_items = 20)]
    pub items: Vec<PreviewedReport>,
}

/// A report out of which rules would take something.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PreviewedReport {
    /// The id that the report names.
    #[schema(value_type = Uuid)]
    pub id: ReportId,
    /// How often each rule would take something.
    #[schema(example = json!({"email": 3}))]
    pub taken: BTreeMap<String, u64>,
    /// The first lines and values that would change, each cut to 300 characters.
    #[schema(max_items = 5)]
    pub texts: Vec<PreviewedText>,
}

/// A line or a value that rules would change.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PreviewedText {
    /// The text that is stored now.
    #[schema(example = "no cart of robin@example.com")]
    pub before: String,
    /// The text that would be stored. Hashes are of this answer alone.
    #[schema(example = "no cart of [scrubbed:email]")]
    pub after: String,
}

/// Preview rules of scrubbing
///
/// Applies rules to the newest stored reports of the last day, and shows what they would take. Nothing is stored. Reports out of
/// which stored rules took something show the rest.
#[utoipa::path(post, path = "/v1/scrubbing/preview", tag = "scrubbing", operation_id = "preview_scrubbing",
    request_body = ScrubbingPreviewQuery,
    responses((status = 200, description = "What would be taken.", body = ScrubbingPreview), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn preview_scrubbing(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<TenantAdmin>,
    JsonBody(query): JsonBody<ScrubbingPreviewQuery>,
) -> Result<Json<ScrubbingPreview>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_app(&query.app)?;
    let config = read_rules(&symbolication.storage, access.tenant(), query.rules, &query.app).await?;
    let rules = Arc::new(compile_rules(&config)?);
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let filter = ReportFilter {
        app: Some(query.app).filter(|app| !app.is_empty()),
        from: Some(symbolication.storage.clock.now() - SAMPLED_PERIOD),
        ..ReportFilter::default()
    };
    let listed = list_reports(&mut tx, &filter, None, SAMPLED_REPORTS_LIMIT).await?.reports;
    let found = find_listed(&mut tx, &listed).await?;
    let bodies = stored_body::read_bodies(&symbolication, access.tenant(), tx, &found).await?;
    let mut preview = ScrubbingPreview { sample: bodies.len(), ..ScrubbingPreview::default() };
    for body in bodies {
        let rules = Arc::clone(&rules);
        let work = move || preview_body(&rules, &body);
        let Some(report) = symbolication.capacity.cpu.run_for(access.tenant(), work).await?? else {
            continue;
        };
        for (rule, count) in &report.taken {
            *preview.taken.entry(rule.clone()).or_default() += count;
        }
        preview.items.push(report);
    }
    Ok(Json(preview))
}

fn preview_body(rules: &ScrubRules, body: &StoredBody) -> Result<Option<PreviewedReport>, Problem> {
    let id = stored_body::read_report(&body.json)?.id;
    let document = body.document.as_deref().unwrap_or(&body.json);
    let (scrubbed, texts) = rules.preview_report(document, SHOWN_TEXTS_LIMIT).map_err(Problem::internal)?;
    if scrubbed.taken.is_empty() {
        return Ok(None);
    }
    let cut = |text: String| text.chars().take(SHOWN_CHARS_LIMIT).collect::<String>();
    let texts = texts.into_iter();
    let texts =
        texts.map(|text| PreviewedText { before: cut(text.before), after: cut(text.after) }).collect();
    Ok(Some(PreviewedReport { id, taken: scrubbed.taken, texts }))
}
