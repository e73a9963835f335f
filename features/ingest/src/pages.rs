//! `/console/public-keys`: the tenant's public keys, each with the lines for the clients.

use crate::operations::IngestExtension;
use crate::operations::change::{IngestKeyChange, change_public_key};
use crate::operations::create::create_public_key;
use crate::operations::erase::{NewKeyErasure, erase_public_key_reports};
use crate::operations::list::find_keys;
use crate::store::{
    IngestKey, IngestKeyState, KeyToday, KeyVersion, NewIngestKey, list_key_versions, read_today,
};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::HeaderMap;
use http::header::HOST;
use serde::Deserialize;
use std::sync::Arc;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use unslide_api::feature::Keys;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Api, JsonBody, Kind, PageQuery, Path, Problem, Query, TenantAdmin,
};
use unslide_site::{PageState, SentForm, Shell, SignedIn, Template, counted, escaping, filters, render_html};
use unslide_store::erasure_requests::ErasureState;
use unslide_store::key_erasures::{KeyErasure, list_erasures};

/// Erasures of each key that the page shows.
const SHOWN_ERASURES: usize = 5;
/// Versions of each key that the page shows.
const SHOWN_VERSIONS: i64 = 10;
/// The path of the page.
pub const PATH: &str = "/console/public-keys";

/// Returns the routes of the page of public keys.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(PATH, get(show_keys).post(create_key))
        .route("/console/public-keys/{id}/{action}", post(change_key))
}

#[derive(Template)]
#[template(path = "ingest/keys.html", askama = escaping)]
struct PublicKeysPage {
    shell: Shell,
    keys: Vec<IngestKey>,
    versions: Vec<KeyVersion>,
    today: Vec<KeyToday>,
    erasures: Vec<KeyErasure>,
    next: Option<String>,
    only_app: Option<String>,
    /// The beginning of the URLs of apps.
    base: String,
}

impl PublicKeysPage {
    /// Returns the versions of apps that use a key.
    fn versions_of_key<'p>(&'p self, key: &IngestKey) -> Vec<&'p KeyVersion> {
        self.versions.iter().filter(|version| version.key_id == key.id).collect()
    }

    /// Returns the erasures of what came with a key, each as a line.
    fn erasures_of_key(&self, key: &IngestKey) -> Vec<String> {
        let own = self.erasures.iter().filter(|erasure| erasure.key_id == key.id).take(SHOWN_ERASURES);
        own.map(describe_erasure).collect()
    }

    /// Returns a sentence about the reports of today that closing a key would lose.
    fn loss_sentence(&self, key: &IngestKey) -> String {
        let today = self.today.iter().find(|today| today.key_id == key.id);
        let lost = today.and_then(|today| Some(format!("{:.1} %", today.share()? * 100.0)));
        lost.map_or_else(
            || "There are no reports today.".to_owned(),
            |share| format!("Closing it loses {share} of today's reports."),
        )
    }

    fn key_url(&self, key: &IngestKey) -> String {
        format!("{}/i/{}", self.base, key.key.as_deref().unwrap_or_default())
    }

    fn kscrash2_lines(&self, key: &IngestKey) -> String {
        let url = self.key_url(key);
        format!(
            "CrashInstallationStandard.shared.url = URL(string: \"{url}\")\n\
             configuration.reportStoreConfiguration.reportCleanupPolicy = .onSuccess"
        )
    }

    fn kscrash3_lines(&self, key: &IngestKey) -> String {
        let url = self.key_url(key);
        format!(
            "var request = URLRequest(url: URL(string: \"{url}\")!)\n\
             request.httpMethod = \"POST\"\n\
             let (_, answer) = try await URLSession.shared.upload(for: request, from: JSONEncoder().encode(report))\n\
             guard let http = answer as? HTTPURLResponse, http.statusCode == 202 else {{ throw URLError(.badServerResponse) }}"
        )
    }

    fn metric_kit_lines(&self, key: &IngestKey) -> String {
        let url = self.key_url(key);
        format!(
            "func didReceive(_ payloads: [MXDiagnosticPayload]) {{\n    \
                 for payload in payloads {{\n        \
                     var request = URLRequest(url: URL(string: \"{url}\")!)\n        \
                     request.httpMethod = \"POST\"\n        \
                     URLSession.shared.uploadTask(with: request, from: payload.jsonRepresentation()).resume()\n    \
                 }}\n\
             }}"
        )
    }

    fn curl_line(&self, key: &IngestKey) -> String {
        format!("curl --data-binary @report.json {}", self.key_url(key))
    }
}

fn state_mark(key: &IngestKey) -> (&'static str, &'static str, &'static str) {
    match key.state {
        IngestKeyState::Active => ("good", "●", "active"),
        IngestKeyState::Retired => ("warn", "◐", "retired"),
        IngestKeyState::Closed => ("bad", "○", "closed"),
    }
}

/// Returns an erasure as a line.
fn describe_erasure(erasure: &KeyErasure) -> String {
    let version = match erasure.version.as_deref() {
        None => String::new(),
        Some("") => ", without a version".to_owned(),
        Some(version) => format!(", version {version}"),
    };
    let state = match erasure.state {
        ErasureState::Searching => "searching",
        ErasureState::SearchingAgain => "searching again",
        ErasureState::Done => "done",
        ErasureState::Failed => "failed",
    };
    let removed = |table: &str| erasure.removed.get(table).copied().unwrap_or_default();
    format!(
        "{} to {}{version}: {state}, removed {} and {}",
        format_minute(erasure.from),
        format_minute(erasure.to),
        counted(removed("reports"), "report", "reports"),
        counted(removed("sessions"), "session", "sessions")
    )
}

/// Returns a time in UTC to the minute.
fn format_minute(at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    format!("{} {:02}:{:02} UTC", at.date(), at.hour(), at.minute())
}

/// Reads a time in UTC from an input of a form, which may have no seconds.
fn read_time(field: &str, text: &str) -> Result<OffsetDateTime, Problem> {
    let parse = |text: String| OffsetDateTime::parse(&text, &Rfc3339).ok();
    parse(format!("{text}Z"))
        .or_else(|| parse(format!("{text}:00Z")))
        .ok_or_else(|| Problem::new(Kind::InvalidBody, format!("{field}: a time such as 2026-11-27T09:00")))
}

/// Returns the beginning of URLs: the configured address, or the host of the request.
fn base_url(public_url: &str, headers: &HeaderMap) -> String {
    if !public_url.is_empty() {
        return public_url.trim_end_matches('/').to_owned();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let is_local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| host.starts_with(local));
    format!("{}://{host}", if is_local { "http" } else { "https" })
}

/// `GET /console/public-keys`: the list and the form of a new key.
async fn show_keys(
    State(storage): State<Arc<Storage>>,
    Extension(ingest): IngestExtension,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = signed.access;
    let only_app = access.only_app().map(str::to_owned);
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let found = find_keys(&storage, &access, &query).await?;
    let ids: Vec<String> = found.items.iter().map(|key| key.id.clone()).collect();
    let mut tx = storage.tenant(access.tenant()).await?;
    let versions = list_key_versions(&mut tx, &ids, SHOWN_VERSIONS).await?;
    let today = read_today(&mut tx, &ids, access.only_app()).await?;
    let erasures = list_erasures(&mut tx, &ids).await?;
    drop(tx);
    render_html(&PublicKeysPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Public keys"),
        keys: found.items,
        versions,
        today,
        erasures,
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &[], &cursor)),
        only_app,
        base: base_url(&ingest.public_url, &headers),
    })
}

/// `POST /console/public-keys`: makes a key and shows the list.
async fn create_key(
    keys: State<Arc<Keys>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let apps = form.field_text("apps");
    let apps = apps.split([',', ' ', '\n', '\r']).filter(|app| !app.is_empty());
    let new = NewIngestKey { name: form.field_text("name"), apps: apps.map(str::to_owned).collect() };
    let _ = create_public_key(keys, signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(PATH).into_response())
}

/// A change of a key, as the path of its form names it.
#[derive(Deserialize)]
struct KeyAction {
    id: String,
    action: String,
}

/// `POST /console/public-keys/{id}/{action}`: `activate`, `retire`, `close`, `erase`. To close a key takes its id once more.
async fn change_key(
    keys: State<Arc<Keys>>,
    signed: SignedIn<TenantAdmin>,
    Path(path): Path<KeyAction>,
    form: SentForm,
) -> Result<Response, Problem> {
    if path.action == "erase" {
        return erase_reports(State(keys.storage.clone()), signed.access, path.id, &form).await;
    }
    let state = match path.action.as_str() {
        "activate" => IngestKeyState::Active,
        "retire" => IngestKeyState::Retired,
        "close" if form.get("id") != Some(path.id.as_str()) => {
            let detail = format!("id: write {} to close this key", path.id);
            return Err(Problem::new(Kind::InvalidBody, detail));
        }
        "close" => IngestKeyState::Closed,
        _ => return Err(Problem::new(Kind::NotFound, "public keys have no such action")),
    };
    let change = JsonBody(IngestKeyChange { state });
    let Json(_) = change_public_key(keys, signed.access, Path(path.id), change).await?;
    Ok(Redirect::to(PATH).into_response())
}

/// Requests the erasure of what came with a key. The box has to be ticked.
async fn erase_reports(
    storage: State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    id: String,
    form: &SentForm,
) -> Result<Response, Problem> {
    if !form.has_field("sure") {
        return Err(Problem::new(Kind::InvalidBody, "sure: tick the box to erase what came with the key"));
    }
    let text = |field: &str| Some(form.field_text(field)).filter(|text| !text.is_empty());
    let new = NewKeyErasure {
        from: read_time("from", &form.field_text("from"))?,
        to: text("to").map(|to| read_time("to", &to)).transpose()?,
        version: text("version"),
        dry_run: false,
    };
    let _ = erase_public_key_reports(storage, access, Path(id), JsonBody(new)).await?;
    Ok(Redirect::to(PATH).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_time_of_a_form_has_seconds_or_none() {
        let minute = read_time("from", "2026-11-27T09:00").unwrap();
        assert_eq!(minute, read_time("from", "2026-11-27T09:00:00").unwrap());
        assert_eq!(format_minute(minute), "2026-11-27 09:00 UTC");
        assert!(read_time("from", "").is_err() && read_time("to", "yesterday").is_err());
    }

    #[test]
    fn urls_begin_with_the_configured_address_or_the_host_of_the_request() {
        let host = |host: &'static str| HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        assert_eq!(base_url("https://crash.example.com/", &host("other")), "https://crash.example.com");
        assert_eq!(base_url("", &host("crash.example.com")), "https://crash.example.com");
        assert_eq!(base_url("", &host("127.0.0.1:8080")), "http://127.0.0.1:8080");
    }
}
