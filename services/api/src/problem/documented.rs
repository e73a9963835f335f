//! Documents the failures of operations in OpenAPI.

use super::{Kind, MEDIA_TYPE};
use http::StatusCode;
use std::collections::BTreeMap;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{
    ContentBuilder, Header, ObjectBuilder, Ref, RefOr, Response as Documented, ResponseBuilder,
};

/// The failures that every operation with a key can return.
const SHARED_KINDS: &[Kind] = &[
    Kind::InvalidRequest,
    Kind::Unauthorized,
    Kind::InsufficientScope,
    Kind::TenantSuspended,
    Kind::TenantBusy,
    Kind::Internal,
    Kind::Unavailable,
    Kind::Overloaded,
];

/// Returns the OpenAPI responses of an operation with these failures, and with those that all operations
/// share.
#[must_use]
pub fn documented(kinds: &[Kind]) -> BTreeMap<String, RefOr<Documented>> {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in SHARED_KINDS.iter().chain(kinds) {
        let kinds = by_status.entry(kind.status().as_u16()).or_default();
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    by_status.into_iter().map(|(status, kinds)| (status.to_string(), build_response(&kinds).into())).collect()
}

fn build_response(kinds: &[Kind]) -> Documented {
    let description =
        kinds.iter().map(|k| format!("`{}`: {}.", k.slug(), k.title())).collect::<Vec<_>>().join(" ");
    let examples = kinds.iter().map(|kind| {
        let body = serde_json::json!({
            "type": kind.uri(), "title": kind.title(), "status": kind.status().as_u16(),
            "request_id": "8b2ad1b7c0ffee42",
        });
        (kind.slug(), ExampleBuilder::new().value(Some(body)).build())
    });
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .examples_from_iter(examples)
        .build();
    let mut response = ResponseBuilder::new().description(description).content(MEDIA_TYPE, content);
    if kinds.iter().all(|kind| kind.is_retriable()) {
        let about = "Seconds after which the same request may be sent again.";
        response = response.header("retry-after", build_header(Type::Integer, about));
    }
    if kinds.iter().all(|kind| kind.status() == StatusCode::UNAUTHORIZED) {
        response =
            response.header("www-authenticate", build_header(Type::String, "`Bearer realm=\"unslide\"`."));
    }
    response.build()
}

fn build_header(of: Type, about: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(of).build();
    HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
}

/// Names the failures of one operation, for its `responses(…)`.
#[macro_export]
macro_rules! problems {
    ($name:ident: $($kind:ident),* $(,)?) => {
        #[doc = "The documented failures of the operation in this file."]
        enum $name {}

        impl utoipa::IntoResponses for $name {
            fn responses()
            -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                $crate::problem::documented(&[$($crate::problem::Kind::$kind),*])
            }
        }
    };
}
pub use problems;
