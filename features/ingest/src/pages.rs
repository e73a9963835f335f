//! `/console/public-keys`: the tenant's public keys, each with the lines for the clients.

use crate::key::AppPattern;
use crate::operations::IngestExtension;
use crate::operations::change::{IngestKeyChange, change_public_key};
use crate::operations::create::create_public_key;
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
use unslide_api::feature::operation::{Api, JsonBody, Kind, PageQuery, Path, Problem, Query, TenantAdmin};
use unslide_console::page::{PageState, SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

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
    State(api): State<Api>,
    Extension(ingest): IngestExtension,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = signed.access;
    let only_app = access.only_app().map(str::to_owned);
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let found = find_keys(&api, &access, &query).await?;
    let ids: Vec<String> = found.items.iter().map(|key| key.id.clone()).collect();
    let mut tx = api.tenant(access.tenant()).await?;
    let versions = list_key_versions(&mut tx, &ids, SHOWN_VERSIONS).await?;
    let today = read_today(&mut tx, &ids, access.only_app()).await?;
    drop(tx);
    render_html(&PublicKeysPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Public keys"),
        keys: found.items,
        versions,
        today,
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &[], &cursor)),
        only_app,
        base: base_url(&ingest.public_url, &headers),
    })
}

/// `POST /console/public-keys`: makes a key and shows the list.
async fn create_key(
    api: State<Api>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let apps = form.field_text("apps");
    let apps = apps.split([',', ' ', '\n', '\r']).filter(|app| !app.is_empty());
    let new = NewIngestKey {
        name: form.field_text("name"),
        apps: apps.map(|app| AppPattern(app.to_owned())).collect(),
    };
    let _ = create_public_key(api, signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(PATH).into_response())
}

/// A change of a key, as the path of its form names it.
#[derive(Deserialize)]
struct KeyAction {
    id: String,
    action: String,
}

/// `POST /console/public-keys/{id}/{action}`: `activate`, `retire`, `close`. To close a key takes its id once more.
async fn change_key(
    api: State<Api>,
    ingest: IngestExtension,
    signed: SignedIn<TenantAdmin>,
    Path(path): Path<KeyAction>,
    form: SentForm,
) -> Result<Response, Problem> {
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
    let Json(_) = change_public_key(api, ingest, signed.access, Path(path.id), change).await?;
    Ok(Redirect::to(PATH).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn urls_begin_with_the_configured_address_or_the_host_of_the_request() {
        let host = |host: &'static str| HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        assert_eq!(base_url("https://crash.example.com/", &host("other")), "https://crash.example.com");
        assert_eq!(base_url("", &host("crash.example.com")), "https://crash.example.com");
        assert_eq!(base_url("", &host("127.0.0.1:8080")), "http://127.0.0.1:8080");
    }
}
