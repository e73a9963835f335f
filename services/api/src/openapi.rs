//! The frame of the OpenAPI document; the operations add their own parts.

pub mod self_contained;

use crate::operation_router::OperationRouter;
use crate::problem::ProblemDetails;
use crate::requests::access::Reach;
use axum::Extension;
use unslide_model::Scope;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::ServerBuilder;
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};

/// The security scheme's name in the document.
pub const KEY_SCHEME: &str = "key";

const ABOUT: &str = "Unslide turns the addresses in crash reports into functions, files and lines.

Upload dSYMs with `POST /v1/symbols`, send KSCrash reports with `POST /v1/reports` or over Kafka, and read the \
enriched reports here or from the topic `crash.symbolicated`.

Every operation under `/v1` needs an API key in `Authorization: Bearer unslide_…`; each names the scope that the key \
must have. What belongs to another tenant does not exist for a key: the answer is 404.

Errors are RFC 9457 problem details. Compare `type`, which never changes and is the path of a page that explains the \
problem (`/problems` lists all); show `detail`. After a 429 or 503 the same request may be sent again, after the seconds \
in `Retry-After`.

Lists come in pages: hand `next_cursor` back as `cursor`, with the same filters.";

/// Returns the document without operations.
#[must_use]
pub fn build_base() -> OpenApi {
    let scopes = Scope::ALL.map(|scope| format!("`{scope}`")).join(", ");
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("unslide_<prefix>_<secret>")
        .description(Some(format!("An API key. Its scopes are among {scopes}.")))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme(KEY_SCHEME, SecurityScheme::Http(key))
        .schema(ProblemDetails::name(), ProblemDetails::schema())
        .build();
    let tags = [
        ("symbols", "dSYMs and other Mach-O files: upload, look at, delete."),
        ("system", "Symbols of operating systems, for operators."),
        ("reports", "Crash reports: send, find, read, explain."),
        ("sessions", "Runs of apps: send how they begin and end, read what happened in one."),
        ("search", "One search for reports, groups, apps, versions and ids."),
        ("apps", "Figures by app and version."),
        ("groups", "Reports of the same bug."),
        ("tenants", "Tenants, for operators."),
        ("keys", "API keys, for a tenant's administrators."),
        ("dead letters", "Records that could not be processed: look at, replay."),
    ];
    let tags = tags.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Unslide")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(
                    LicenseBuilder::new()
                        .name("Apache-2.0 OR MIT")
                        .identifier(Some("Apache-2.0 OR MIT"))
                        .build(),
                )),
        )
        .components(Some(components))
        .servers(Some([ServerBuilder::new()
            .url("/")
            .description(Some("The server of this document."))
            .build()]))
        .tags(Some(tags))
        .build()
}

/// Returns the same operations for operators, under `prefix`: for the system's symbols, or for the data of
/// all tenants.
pub fn for_operators(prefix: &'static str, reach: Reach, routes: OperationRouter) -> OperationRouter {
    let routes = routes.map_document(move |mut document| {
        for (path, item) in &mut document.paths.paths {
            let methods = [
                ("GET", &mut item.get),
                ("POST", &mut item.post),
                ("PUT", &mut item.put),
                ("DELETE", &mut item.delete),
            ];
            for (method, operation) in methods {
                if let Some(operation) = operation {
                    document_for_operators(reach, operation, &format!("{method} /v1{path}"));
                }
            }
        }
        document
    });
    OperationRouter::new().nest(prefix, routes.layer(Extension(reach)))
}

fn document_for_operators(reach: Reach, operation: &mut Operation, twin: &str) {
    let (id, summary) = (operation.operation_id.take().unwrap_or_default(), operation.summary.take());
    let summary = summary.unwrap_or_default();
    let (id, summary, about) = match reach {
        Reach::System => {
            let (verb, noun) = id.split_once('_').unwrap_or((&id, ""));
            operation.tags = Some(vec!["system".to_owned()]);
            // Operators' uploads have no quota.
            operation.responses.responses.remove("507");
            (
                format!("{verb}_system_{noun}"),
                format!("{summary} (system symbols)"),
                "symbols of operating systems, which answer the reports of every tenant",
            )
        }
        Reach::All => (
            format!("operator_{id}"),
            format!("{summary} (all tenants)"),
            "all tenants, and for what has none",
        ),
    };
    operation.operation_id = Some(id);
    operation.summary = Some(summary);
    operation.description = Some(format!("As `{twin}`, for {about}."));
    operation.security = Some(vec![SecurityRequirement::new(KEY_SCHEME, [Scope::Operator.as_str()])]);
}
