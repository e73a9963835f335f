//! `PUT /v1/symbol-sources` sets a symbol source.

use super::{EVERY_APP, SOURCES_LIMIT, ShownSource};
use crate::asking::begin_asking;
use crate::layouts::SourceLayout;
use crate::settings::SYMBOL_SOURCES_SECTION;
use crate::store::{self, NewSourceRow};
use crate::target::{SEALING_KEY, SourceTarget, SymbolSourceKind};
use crate::{SymbolSources, SymbolSourcesExtension};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::buckets::{ADDRESS_BYTES_LIMIT, BucketFields, check_base_address};
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, is_text, problems};
use unslide_model::Secret;
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// The most bytes of a header.
const HEADER_BYTES_LIMIT: usize = 2_000;

/// A symbol source to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSymbolSource {
    /// Its name in this tenant: lower case letters, digits and `-`. The name of one that is set changes it.
    #[schema(min_length = 1, max_length = 40, example = "builds")]
    pub name: String,
    /// The protocol of its requests.
    pub kind: SymbolSourceKind,
    /// The layout of its files.
    pub layout: SourceLayout,
    /// The URL of a symbol server, without the paths of the layout; or of a service with the interface of S3. For `s3` absent: that of AWS in
    /// the region.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 500, example = "https://storage.googleapis.com")]
    pub address: Option<Secret>,
    /// For `s3`: the bucket.
    #[serde(default)]
    #[schema(max_length = 63, example = "builds")]
    pub bucket: Option<String>,
    /// For `s3`: the folder in the bucket with the layout's paths; absent: the bucket itself.
    #[serde(default)]
    #[schema(max_length = 500, example = "dsyms")]
    pub prefix: Option<String>,
    /// For `s3`: the region that requests are signed for; `us-east-1` if absent.
    #[serde(default)]
    #[schema(max_length = 200, example = "eu-central-1")]
    pub region: Option<String>,
    /// For `s3`: the id of the access key; absent for a public bucket.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub access_key: Option<String>,
    /// For `s3`: the secret of the access key. If absent, the one of the same key and address stays. It is stored encrypted and never shown.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 200)]
    pub secret_key: Option<Secret>,
    /// For `http`: the value of the header `Authorization`, such as `Bearer …`. If absent, the one of the same address stays; an empty text
    /// removes it. It is stored encrypted and never shown.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 2000)]
    pub authorization: Option<Secret>,
}

/// Set a symbol source
///
/// The builder asks it for each image of the tenant's apps that reports wait for and that no upload has brought, now and with each new one:
/// once, then after 1 hour, 6 hours, and each day for 14 days after the last report. A file with the debug id that was asked for is taken as
/// an upload. Nothing is written to the source, and no redirect is followed.
#[utoipa::path(put, path = "/v1/symbol-sources", tag = "symbol-sources", operation_id = "set_symbol_source",
    request_body = NewSymbolSource,
    responses((status = 200, description = "The source is set.", body = ShownSource), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_symbol_source(
    State(storage): State<Arc<Storage>>,
    Extension(sources): SymbolSourcesExtension,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewSymbolSource>,
) -> Result<Json<ShownSource>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let wrong = |detail: String| Problem::new(Kind::InvalidBody, detail);
    check_new(&new).map_err(wrong)?;
    let tenant = access.tenant();
    let Some(sealer) = &sources.sealer else {
        let detail = format!("This service keeps no symbol sources. The operator sets {SEALING_KEY}.");
        return Err(wrong(detail));
    };
    let mut tx = storage.tenant(tenant).await?;
    let known = store::lock_sources(&mut tx).await?;
    let former = known.iter().find(|row| row.name == new.name);
    if former.is_none() && known.len() >= SOURCES_LIMIT {
        let detail = format!("the tenant has {SOURCES_LIMIT} symbol sources: remove one first");
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    let former = former.and_then(|row| sources.open_target(tenant, row).ok());
    let target = read_target(&sources, &new, former.as_ref()).map_err(wrong)?;
    let row = NewSourceRow {
        name: new.name.clone(),
        kind: new.kind,
        layout: new.layout,
        shown_address: target.shown_address(),
        sealed_target: sealer.seal_target(tenant, &target).map_err(Problem::internal)?,
    };
    store::set_source(&mut tx, &row).await?;
    begin_asking(&mut tx).await?;
    let detail = json!({"kind": row.kind, "layout": row.layout, "address": row.shown_address});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "symbol_source.set", &new.name, &detail).await?;
    let row = store::list_sources(&mut tx).await?.into_iter().find(|row| row.name == new.name);
    let row = row.ok_or_else(|| Problem::internal("the source is gone"))?;
    tx.commit().await?;
    Ok(Json(ShownSource::from_row(row)))
}

/// Returns the target of a request. Secrets that it does not name are those of the former target at the same address.
///
/// # Errors
/// Returns what is wrong with the request.
fn read_target(
    sources: &SymbolSources,
    new: &NewSymbolSource,
    former: Option<&SourceTarget>,
) -> Result<SourceTarget, String> {
    let allowed = &sources.client.receivers;
    let address = new.address.clone().filter(|address| !address.is_empty());
    if new.kind == SymbolSourceKind::Http {
        let url = address.ok_or("address: the URL of the symbol server")?;
        check_base_address(&url, allowed, SYMBOL_SOURCES_SECTION)?;
        let kept = match former {
            Some(SourceTarget::Http { url: known, authorization }) if known.reveal() == url.reveal() => {
                Some(authorization.clone())
            }
            _ => None,
        };
        let authorization = new.authorization.clone().or(kept).unwrap_or_default();
        return Ok(SourceTarget::Http { url, authorization });
    }
    let fields = BucketFields {
        address: address.as_ref(),
        bucket: new.bucket.as_deref(),
        prefix: new.prefix.as_deref(),
        region: new.region.as_deref(),
        access_key: new.access_key.as_deref(),
        secret_key: new.secret_key.as_ref(),
    };
    let former = match former {
        Some(SourceTarget::S3(known)) => Some(known),
        _ => None,
    };
    Ok(SourceTarget::S3(fields.read_target(former, allowed, SYMBOL_SOURCES_SECTION)?))
}

fn check_new(new: &NewSymbolSource) -> Result<(), String> {
    let is_name = (1..=40).contains(&new.name.len())
        && new.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_name {
        return Err("name: 1 to 40 lower case letters, digits and -".to_owned());
    }
    let texts = [
        ("address", new.address.as_ref().map(Secret::reveal), ADDRESS_BYTES_LIMIT),
        ("authorization", new.authorization.as_ref().map(Secret::reveal), HEADER_BYTES_LIMIT),
    ];
    for (name, text, limit) in texts {
        let text = text.filter(|text| !text.is_empty());
        if text.is_some_and(|text| !is_text(text, limit) || !text.is_ascii()) {
            return Err(format!("{name}: at most {limit} bytes of ASCII, no control characters"));
        }
    }
    let is_given = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
    let of_buckets = [
        ("bucket", new.bucket.as_deref()),
        ("prefix", new.prefix.as_deref()),
        ("region", new.region.as_deref()),
        ("access_key", new.access_key.as_deref()),
        ("secret_key", new.secret_key.as_ref().map(Secret::reveal)),
    ];
    match new.kind {
        SymbolSourceKind::Http => match of_buckets.into_iter().find(|(_, text)| is_given(*text)) {
            Some((name, _)) => Err(format!("{name}: it is for buckets")),
            None => Ok(()),
        },
        SymbolSourceKind::S3 if is_given(new.authorization.as_ref().map(Secret::reveal)) => {
            Err("authorization: it is for symbol servers; a bucket has an access key".to_owned())
        }
        SymbolSourceKind::S3 => Ok(()),
    }
}
