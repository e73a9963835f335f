//! `POST /v1/reprocess`.

use crate::operations::prelude::*;
use crate::requests::input::{Json, check_texts};
use axum::response::{IntoResponse, Response};
use time::OffsetDateTime;
use unslide_model::timestamp;
use unslide_store::audit;
use unslide_store::reprocess::{self, ReprocessFilter, ReprocessRun};

/// Longer texts match nothing that is stored.
const FILTER_BYTES: usize = 1_024;

/// Which reports to symbolicate again. A filter that is absent fits every report; at least one filter or `all` is needed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReprocess {
    /// The only app (bundle identifier); all apps if absent.
    #[schema(example = "com.example.shop")]
    pub app: Option<String>,
    /// The only version of the app; all versions if absent.
    pub version: Option<String>,
    /// The only build number of the app; all builds if absent.
    pub build: Option<String>,
    /// Arrived at this time or later.
    #[serde(default, deserialize_with = "timestamp::deserialize")]
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time; before now if absent.
    #[serde(default, deserialize_with = "timestamp::deserialize")]
    pub to: Option<OffsetDateTime>,
    /// A frame refers to the image with this debug id, dashed or not, in any case.
    pub debug_id: Option<String>,
    /// True for every report: without `app`, `version`, `build`, `from`, `to` and `debug_id`.
    #[serde(default)]
    pub all: bool,
    /// True only counts the reports, and requests none again.
    #[serde(default)]
    pub dry_run: bool,
}

impl NewReprocess {
    /// Checks that a request without a filter confirms that it reprocesses every report.
    fn check_scope(&self) -> Result<(), Problem> {
        let texts = [&self.app, &self.version, &self.build, &self.debug_id];
        let is_narrow = texts.into_iter().any(Option::is_some) || self.from.is_some() || self.to.is_some();
        let detail = match (self.all, is_narrow) {
            (true, true) => {
                "all: asks for every report, so it goes without app, version, build, from, to and debug_id"
            }
            (false, false) if !self.dry_run => {
                "name an app, a version, a build, a time (from, to) or a debug_id; for every report, say so: {\"all\": true}"
            }
            _ => return Ok(()),
        };
        Err(Problem::new(Kind::InvalidBody, detail))
    }
}

/// Result of a dry run: a count.
#[derive(Debug, Serialize, ToSchema)]
pub struct CountedReports {
    /// Number of stored reports that match.
    pub count: u64,
}

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, RateLimited);

/// Seconds after which a tenant with too many open reprocesses may retry.
const RETRY_AFTER_SECONDS: u32 = 60;

/// Symbolicate stored reports again
///
/// Every report that matches is requested once, at a limited rate: new reports go first. Those that improve
/// come back as their next revision. With `dry_run` nothing happens, and the answer is the number of reports
/// that match. A tenant has at most four runs at the same time; another gets 429 with `Retry-After`.
#[utoipa::path(post, path = "/v1/reprocess", tag = "reports", operation_id = "create_reprocess",
    request_body = NewReprocess,
    responses(
        (status = 200, description = "A dry run: how many reports fit.", body = CountedReports),
        (status = 202, description = "The reprocess is recorded, and the service will request the reports.",
            headers(("location" = String, description = "The path of the reprocess's state.")), body = ReprocessRun), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn create_reprocess(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Json(new): Json<NewReprocess>,
) -> Result<Response, Problem> {
    Ok(match begin_reprocess(&storage, &access, new).await? {
        BegunReprocess::Counted(count) => axum::Json(CountedReports { count }).into_response(),
        BegunReprocess::Running(run) => {
            let location = Some(format!("/v1/reprocess/{}", run.id));
            AcceptedResponse { body: *run, location }.into_response()
        }
    })
}

/// The outcome of a request for a reprocess.
#[derive(Debug)]
pub enum BegunReprocess {
    /// A dry run: this many reports match.
    Counted(u64),
    Running(Box<ReprocessRun>),
}

/// Counts the reports that match, or begins to request them again.
///
/// # Errors
/// The failures that the operation documents.
pub async fn begin_reprocess(
    storage: &Storage,
    access: &Access<TenantAdmin>,
    new: NewReprocess,
) -> Result<BegunReprocess, Problem> {
    new.check_scope()?;
    let texts = [("app", &new.app), ("version", &new.version), ("build", &new.build)];
    check_texts(Kind::InvalidBody, FILTER_BYTES, texts.map(|(name, text)| (name, text.as_deref())))?;
    let wanted = ReprocessFilter {
        app: access.restrict_app(new.app)?,
        version: new.version,
        build: new.build,
        from: new.from,
        to: new.to,
        debug_id: new.debug_id.as_deref().map(|text| parse_parameter("debug_id", text)).transpose()?,
    };
    let mut tx = storage.tenant(access.tenant()).await?;
    if new.dry_run {
        return Ok(BegunReprocess::Counted(reprocess::count_matching(&mut tx, &wanted).await?));
    }
    let actor = access.principal.key_id.to_string();
    let open = reprocess::hold_open(&mut tx).await?;
    if open >= reprocess::OPEN_REPROCESSES_LIMIT {
        let detail = format!("{open} reprocesses of the tenant are not over yet");
        return Err(Problem::new(Kind::RateLimited, detail).retry_after(RETRY_AFTER_SECONDS));
    }
    let made = reprocess::create_reprocess(&mut tx, &actor, &wanted).await?;
    let wanted = ReprocessFilter { to: made.to, ..wanted };
    let detail = serde_json::json!({"wanted": wanted, "count": made.matched});
    audit::append_entry(&mut tx, &actor, "reports.reprocess", &made.id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(BegunReprocess::Running(Box::new(made)))
}
