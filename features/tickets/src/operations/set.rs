//! `PUT /v1/trackers`.

use super::test::probe_tracker;
use super::{EVERY_APP, ShownTracker, TRACKERS_LIMIT};
use crate::sealing::{SEALING_KEY, SecretUse, TrackerSealer, TrackerSecretOwner, generate_secret};
use crate::store::{self, NewTrackerRow, TrackerRow};
use crate::ticket::TrackerKind;
use crate::trackers::TrackerAccount;
use crate::{Tickets, TicketsExtension};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, is_text, problems};
use unslide_model::{Secret, TenantId};
use unslide_runtime::egress::check_url;
use unslide_store::{TenantTx, audit};
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, Conflict, LimitReached, RateLimited);

/// Labels of new tickets.
const LABELS_LIMIT: usize = 10;
/// The most bytes of further fields.
const FIELDS_BYTES_LIMIT: usize = 8_000;
/// The most reports of a rule.
const RULE_REPORTS_LIMIT: i64 = 1_000_000_000;

/// A tracker to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTracker {
    /// Its name in this tenant: lower case letters, digits and `-`. The name of one that is set changes it.
    #[schema(min_length = 1, max_length = 40, example = "main")]
    pub name: String,
    /// The product.
    pub kind: TrackerKind,
    /// The address of its API. Absent for that of GitHub, GitLab.com and Linear; for Jira the address of the site, for GitHub
    /// Enterprise Server `https://HOST/api/v3`.
    #[serde(default)]
    #[schema(max_length = 500, example = "https://example.atlassian.net")]
    pub url: Option<String>,
    /// The repository (`owner/name`), project path, project key, or id of the team, by product.
    #[schema(min_length = 1, max_length = 200, example = "example/shop")]
    pub project: String,
    /// The e-mail address of the account that the token belongs to: for Jira Cloud.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub account: Option<String>,
    /// The token. It is stored encrypted and never shown. If absent, the token stays that is set for the same product and address.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 1000)]
    pub token: Option<Secret>,
    /// The secret of hooks. It is stored encrypted and never shown. If absent, the one that is set stays; if there is none, one is made and
    /// shown once. Linear makes its own.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 500)]
    pub hook_secret: Option<Secret>,
    /// The type of new issues, for Jira; `Bug` if absent.
    #[serde(default)]
    #[schema(max_length = 100, example = "Bug")]
    pub issue_type: Option<String>,
    /// Labels of new tickets; ids of labels for Linear.
    #[serde(default)]
    #[schema(max_items = 10)]
    pub labels: Vec<String>,
    /// Further fields of new issues, for Jira: the text of a JSON object with the fields that the project requires.
    #[serde(default)]
    #[schema(max_length = 8000, example = "{\"components\": [{\"name\": \"App\"}]}")]
    pub fields: Option<String>,
    /// A new group gets a ticket when it has this many reports. If absent, only if a person asks.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub rule_reports: Option<i64>,
    /// The only app of that rule, and of commits that fix groups.
    #[serde(default)]
    #[schema(max_length = 255)]
    pub rule_app: Option<String>,
    /// `true` sets a tracker even if it refuses the token or cannot be asked now; otherwise it is refused.
    #[serde(default)]
    pub force: bool,
}

/// Set a tracker
///
/// The tracker is asked for the project, and refused with the answer if that fails. Then groups can have tickets there. Its hooks
/// have to come to `hook_url`, with the hook secret. A tenant may have 20 trackers. While a tracker has tickets, another product,
/// address or project is a conflict: set another tracker. It costs as many units as ten reports.
#[utoipa::path(put, path = "/v1/trackers", tag = "tickets", operation_id = "set_tracker",
    request_body = NewTracker,
    responses((status = 200, description = "The tracker is set.", body = ShownTracker), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_tracker(
    State(storage): State<Arc<Storage>>,
    Extension(tickets): TicketsExtension,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewTracker>,
) -> Result<Json<ShownTracker>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_new(&new).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    let Some(sealer) = &tickets.sealer else {
        let detail = format!("This service keeps no tokens of trackers. The operator sets {SEALING_KEY}.");
        return Err(Problem::new(Kind::InvalidBody, detail));
    };
    let mut tx = storage.tenant(access.tenant()).await?;
    let known = store::list_trackers(&mut tx).await?;
    tx.rollback();
    let name = new.name.clone();
    let former = known.iter().find(|row| row.name == name);
    if former.is_none() && known.len() >= TRACKERS_LIMIT {
        let detail = format!("the tenant has {TRACKERS_LIMIT} trackers: remove one first");
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    let account = read_account(&tickets, access.tenant(), &new, former)?;
    let probed = probe_tracker(&storage, &tickets, &access, new.kind, &account).await?;
    if !probed.ok && !new.force {
        let detail = format!("{} `force` sets the tracker nevertheless", probed.answer);
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    let owner = TrackerSecretOwner { tenant: access.tenant(), tracker: &name };
    let (sealed_hook_secret, new_hook_secret) = seal_hook_secret(sealer, owner, &new, former)?;
    let row = NewTrackerRow {
        name: name.clone(),
        kind: new.kind,
        sealed_token: sealer.seal(owner, SecretUse::Token, &account.token).map_err(Problem::internal)?,
        sealed_hook_secret,
        url: account.url,
        project: account.project,
        account: account.account,
        issue_type: account.issue_type,
        labels: account.labels,
        fields: account.fields,
        rule_reports: new.rule_reports,
        rule_app: new.rule_app,
        problem: (!probed.ok).then_some(probed.answer),
    };
    let mut tx = storage.tenant(access.tenant()).await?;
    // No ticket is sent or linked while it is locked.
    if let Some(former) = store::lock_tracker(&mut tx, &name).await? {
        refuse_move(&mut tx, &former, &row).await?;
    }
    store::set_tracker(&mut tx, &row).await?;
    let detail =
        json!({"kind": row.kind, "url": row.url, "project": row.project, "forced": row.problem.is_some()});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "tracker.set", &name, &detail).await?;
    let row =
        store::get_tracker(&mut tx, &name).await?.ok_or_else(|| Problem::internal("the tracker is gone"))?;
    tx.commit().await?;
    let mut shown = ShownTracker::from_row(&tickets, access.tenant(), row);
    shown.new_hook_secret = new_hook_secret.map(|secret| secret.reveal().to_owned());
    Ok(Json(shown))
}

/// Refuses another product, address or project for a tracker that has tickets: their ids would name other tickets there.
async fn refuse_move(tx: &mut TenantTx, former: &TrackerRow, new: &NewTrackerRow) -> Result<(), Problem> {
    let is_same = former.kind == new.kind && former.url == new.url && former.project == new.project;
    if is_same || !store::has_tickets(tx, &former.name).await? {
        return Ok(());
    }
    let detail = format!(
        "kind, url, project: the tracker {0} has tickets in {1} at {2}. Set a tracker with another name, or remove {0} first: that \
         ends its links to tickets",
        former.name, former.project, former.url
    );
    Err(Problem::new(Kind::Conflict, detail))
}

/// Returns the account of a request, with the stored token if it gives none.
fn read_account(
    tickets: &Tickets,
    tenant: &TenantId,
    new: &NewTracker,
    former: Option<&TrackerRow>,
) -> Result<TrackerAccount, Problem> {
    let wrong = |detail: String| Problem::new(Kind::InvalidBody, detail);
    let protocol = new.kind.protocol();
    let url = new.url.as_deref().filter(|url| !url.is_empty()).or(protocol.usual_url());
    let missing = || wrong(format!("url: the address of {}", protocol.label()));
    let url = url.ok_or_else(missing)?.trim_end_matches('/').to_owned();
    let allowed = tickets.settings.parse_receivers().unwrap_or_default();
    let checked = check_url(&Secret::new(&url), &allowed, crate::trackers::TICKETS_SECTION);
    let checked = checked.map_err(|error| wrong(format!("url: {error}")))?;
    if checked.query().is_some() || checked.fragment().is_some() || !checked.username().is_empty() {
        return Err(wrong("url: the address without a query, a fragment and a user".to_owned()));
    }
    let token = match new.token.as_ref().filter(|token| !token.is_empty()) {
        Some(token) => token.clone(),
        None => {
            // A token goes to the server that it was set for, and to no other one.
            let same = former.filter(|row| row.kind == new.kind && row.url == url);
            let Some(row) = same else {
                let detail = "token: it may be absent only for the product and the address that are set";
                return Err(wrong(detail.to_owned()));
            };
            tickets.open_account(tenant, row).map_err(wrong)?.token
        }
    };
    let account = TrackerAccount {
        url,
        project: new.project.clone(),
        account: new.account.clone().filter(|text| !text.is_empty()),
        token,
        issue_type: new.issue_type.clone().filter(|text| !text.is_empty()),
        labels: new.labels.clone(),
        fields: read_fields(new.fields.as_deref()).map_err(wrong)?,
    };
    protocol.check_account(&account).map_err(wrong)?;
    Ok(account)
}

/// Reads the further fields of new issues.
fn read_fields(text: Option<&str>) -> Result<Option<Value>, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let wrong = || format!("fields: a JSON object of at most {FIELDS_BYTES_LIMIT} bytes");
    if text.len() > FIELDS_BYTES_LIMIT {
        return Err(wrong());
    }
    let fields: Value = unslide_model::json::from_slice(text.as_bytes()).map_err(|_| wrong())?;
    if fields.is_object() { Ok(Some(fields)) } else { Err(wrong()) }
}

/// Returns the sealed secret of hooks, and the secret itself if it was made here.
fn seal_hook_secret(
    sealer: &TrackerSealer,
    owner: TrackerSecretOwner<'_>,
    new: &NewTracker,
    former: Option<&TrackerRow>,
) -> Result<(Vec<u8>, Option<Secret>), Problem> {
    let given = new.hook_secret.as_ref().filter(|secret| !secret.is_empty());
    if let (None, Some(row)) = (given, former) {
        return Ok((row.sealed_hook_secret.clone(), None));
    }
    let made = match given {
        Some(_) => None,
        None => Some(generate_secret().map_err(Problem::internal)?),
    };
    let secret = given.or(made.as_ref()).cloned().unwrap_or_default();
    let sealed = sealer.seal(owner, SecretUse::Hook, &secret).map_err(Problem::internal)?;
    Ok((sealed, made))
}

fn check_new(new: &NewTracker) -> Result<(), String> {
    let is_name = (1..=40).contains(&new.name.len())
        && new.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_name {
        return Err("name: 1 to 40 lower case letters, digits and -".to_owned());
    }
    let is_absent_or =
        |text: Option<&String>, longest| text.is_none_or(|text| text.is_empty() || is_text(text, longest));
    for (field, text, longest) in [
        ("url", new.url.as_ref(), 500),
        ("account", new.account.as_ref(), 200),
        ("issue_type", new.issue_type.as_ref(), 100),
        ("rule_app", new.rule_app.as_ref(), 255),
    ] {
        if !is_absent_or(text, longest) {
            return Err(format!("{field}: at most {longest} bytes, no control characters"));
        }
    }
    if !is_text(&new.project, 200) {
        return Err("project: 1 to 200 bytes, no control characters".to_owned());
    }
    for (field, secret, longest) in
        [("token", new.token.as_ref(), 1_000), ("hook_secret", new.hook_secret.as_ref(), 500)]
    {
        let is_plain = |secret: &Secret| {
            secret.reveal().len() <= longest && secret.reveal().bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !secret.is_none_or(is_plain) {
            return Err(format!("{field}: at most {longest} printable ASCII characters, no spaces"));
        }
    }
    if new.hook_secret.as_ref().is_some_and(|secret| (1..16).contains(&secret.reveal().len())) {
        return Err("hook_secret: at least 16 characters".to_owned());
    }
    if new.labels.len() > LABELS_LIMIT || !new.labels.iter().all(|label| is_text(label, 100)) {
        return Err(format!("labels: at most {LABELS_LIMIT} of 1 to 100 bytes"));
    }
    if new.rule_reports.is_some_and(|reports| !(1..=RULE_REPORTS_LIMIT).contains(&reports)) {
        return Err(format!("rule_reports: 1 to {RULE_REPORTS_LIMIT}"));
    }
    Ok(())
}
