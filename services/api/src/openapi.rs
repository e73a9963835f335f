//! The frame of the OpenAPI document; the operations bring their own parts.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use unslide_model::Scope;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};

/// The security scheme's name in the document.
pub const KEY: &str = "key";

const ABOUT: &str = "Unslide turns the addresses in crash reports into functions, files and lines.

Upload dSYMs with `POST /v1/symbols`, send KSCrash reports with `POST /v1/reports` or over Kafka, and read the \
enriched reports here or from the topic `crash.symbolicated`.

Every operation under `/v1` needs an API key in `Authorization: Bearer unslide_…`; each names the scope that the key \
must have. What belongs to another tenant does not exist for a key: the answer is 404.

Errors are RFC 9457 problem details. Compare `type`, which never changes; show `detail`. After a 503 the same request \
may be sent again, when `Retry-After` says.

Lists come in pages: hand `next_cursor` back as `cursor`, with the same filters.";

/// The document without operations.
#[must_use]
pub fn base() -> OpenApi {
    let scopes = Scope::ALL.map(|scope| format!("`{scope}`")).join(", ");
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("unslide_<prefix>_<secret>")
        .description(Some(format!("An API key. Its scopes are among {scopes}.")))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme(KEY, SecurityScheme::Http(key))
        .schema(crate::problem::Body::name(), crate::problem::Body::schema())
        .build();
    let tags = [
        ("symbols", "dSYMs and other Mach-O files: upload, look at, delete."),
        ("system", "Symbols of operating systems, for operators."),
        ("reports", "Crash reports: send, find, read, explain."),
        ("apps", "Figures by app and version."),
        ("tenants", "Tenants, for operators."),
        ("keys", "API keys, for a tenant's administrators."),
        ("dead letters", "Records that could not be processed: look at, replay."),
    ];
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Unslide")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(LicenseBuilder::new().name("Apache-2.0 OR MIT").build())),
        )
        .components(Some(components))
        .tags(Some(tags.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build())))
        .build()
}

/// The document as it is served, written once.
#[derive(Clone, Debug)]
pub struct Document(Bytes);

impl Document {
    /// Writes the document.
    ///
    /// # Errors
    /// Where it can't be written as JSON.
    pub fn new(document: &OpenApi) -> Result<Document, serde_json::Error> {
        document.to_pretty_json().map(|text| Document(text.into()))
    }

    /// Answers the document; every answer has the same bytes, not a copy.
    #[must_use]
    pub fn response(&self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0.clone()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    /// Anyone may ask for it, and need not read the answer.
    #[tokio::test]
    async fn the_document_is_not_copied_for_each_answer() {
        let document = Document::new(&base()).unwrap();
        let frame = document.response().into_body().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap().as_ptr(), document.0.as_ptr());
    }
}
