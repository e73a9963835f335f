//! `PUT /v1/otlp`: sets how records are taken, and the collector to which crashes are sent.

use super::{EVERY_APP, OtherRecords, OtlpState, read_state};
use crate::Otlp;
use crate::sealing::{HeaderOwner, SEALING_KEY};
use crate::sending::{COLLECTOR_SECTION, check_collector_url};
use crate::store::{self, NewOtlpSettings, OtlpSettings};
use axum::extract::State;
use axum::{Extension, Json};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_model::{Secret, TenantId};
use unslide_runtime::egress::check_url;
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Headers of a request.
const MAX_HEADERS: usize = 10;
/// The most bytes of a URL, and of the value of a header.
const MAX_URL_BYTES: usize = 500;
const MAX_VALUE_BYTES: usize = 4_000;
/// Headers that the service sets itself.
const OWN_HEADERS: [&str; 6] =
    ["content-type", "content-length", "content-encoding", "host", "connection", "transfer-encoding"];

/// Settings of OTLP to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOtlp {
    /// How records that are no crash are answered; `accept` if absent.
    #[serde(default)]
    pub other_records: OtherRecords,
    /// The collector to which crashes are sent. Absent for none.
    #[serde(default)]
    pub export: Option<NewOtlpExport>,
}

/// A collector to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOtlpExport {
    /// The URL to which logs are posted, without a query: secrets are headers.
    #[schema(min_length = 1, max_length = 500, example = "https://otlp.example.com/v1/logs")]
    pub url: String,
    /// Headers of each request, such as `authorization`. They are stored encrypted and never shown. If absent, those stay that
    /// are set for the same URL.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, String>>, example = json!({"authorization": "Bearer …"}))]
    pub headers: Option<BTreeMap<String, Secret>>,
}

/// Set how OTLP is taken and where crashes are sent
///
/// Records of logs and spans come to `/i/{key}/v1/logs` with a public key, or to `/otlp/v1/logs` with an API key. Those that are no
/// crash are accepted and counted, or refused by a partial success. With `export`, each crash that is stored from now on goes to the
/// collector as a log record, over OTLP/HTTP in protobuf, and again with each revision.
#[utoipa::path(put, path = "/v1/otlp", tag = "otlp", operation_id = "set_otlp",
    request_body = NewOtlp,
    responses((status = 200, description = "The settings are set.", body = OtlpState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_otlp(
    State(storage): State<Arc<Storage>>,
    Extension(otlp): Extension<Arc<Otlp>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewOtlp>,
) -> Result<Json<OtlpState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let invalid = |wrong: String| Problem::new(Kind::InvalidBody, wrong);
    if let Some(export) = &new.export {
        check_export(export, &otlp).map_err(invalid)?;
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    let known = store::lock_settings(&mut tx).await?;
    let stored = build_settings(&new, known.as_ref(), access.tenant(), &otlp)?;
    store::set_settings(&mut tx, known.as_ref(), &stored).await?;
    let detail = json!({
        "other_records": new.other_records, "url": stored.export_url, "headers": stored.header_names
    });
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "otlp.set", "otlp", &detail).await?;
    let state = read_state(&mut tx).await?;
    tx.commit().await?;
    otlp.policies.forget_tenant(access.tenant());
    Ok(Json(state))
}

fn build_settings(
    new: &NewOtlp,
    known: Option<&OtlpSettings>,
    tenant: &TenantId,
    otlp: &Otlp,
) -> Result<NewOtlpSettings, Problem> {
    let refuses_others = new.other_records == OtherRecords::Refuse;
    let Some(export) = &new.export else {
        let header_names = Vec::new();
        return Ok(NewOtlpSettings { refuses_others, export_url: None, header_names, sealed_headers: None });
    };
    let export_url = Some(export.url.clone());
    let known = known.filter(|known| known.export_url == export_url);
    let (header_names, sealed_headers) = match (&export.headers, known) {
        (None, Some(known)) => (known.header_names.clone(), known.sealed_headers.clone()),
        (None, None) => (Vec::new(), None),
        (Some(headers), _) if headers.is_empty() => (Vec::new(), None),
        (Some(headers), _) => {
            let Some(sealer) = &otlp.sealer else {
                let detail =
                    format!("This service keeps no headers of collectors. The operator sets {SEALING_KEY}.");
                return Err(Problem::new(Kind::InvalidBody, detail));
            };
            let owner = HeaderOwner { tenant, url: &export.url };
            let sealed = sealer.seal_headers(owner, headers).map_err(Problem::internal)?;
            (headers.keys().map(|name| name.to_ascii_lowercase()).collect(), Some(sealed))
        }
    };
    Ok(NewOtlpSettings { refuses_others, export_url, header_names, sealed_headers })
}

fn check_export(export: &NewOtlpExport, otlp: &Otlp) -> Result<(), String> {
    if export.url.is_empty() || export.url.len() > MAX_URL_BYTES {
        return Err(format!("export.url: 1 to {MAX_URL_BYTES} bytes"));
    }
    check_url(&Secret::new(export.url.as_str()), &otlp.receivers, COLLECTOR_SECTION)
        .map_err(|wrong| format!("export.url: {wrong}"))
        .and_then(|url| check_collector_url(&url).map_err(|wrong| format!("export.url: {wrong}")))?;
    let headers = export.headers.iter().flatten();
    if export.headers.as_ref().is_some_and(|headers| headers.len() > MAX_HEADERS) {
        return Err(format!("export.headers: at most {MAX_HEADERS}"));
    }
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        if HeaderName::try_from(lower.as_str()).is_err() || OWN_HEADERS.contains(&lower.as_str()) {
            let name: String = name.chars().take(60).collect();
            return Err(format!("export.headers: {name:?} is not the name of a header that can be set"));
        }
        let value = value.reveal();
        if value.len() > MAX_VALUE_BYTES || HeaderValue::from_str(value).is_err() {
            return Err(format!(
                "export.headers.{lower}: a value of at most {MAX_VALUE_BYTES} bytes, without line ends"
            ));
        }
    }
    Ok(())
}
