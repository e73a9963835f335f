//! Compressed responses, for clients that ask for them. This module marks responses, and `tower-http`
//! compresses the marked ones.

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use futures::{StreamExt, TryStreamExt, stream};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;

/// Smaller responses are not compressed.
const LEAST_BYTES: u64 = 1_024;
/// Memory of an encoder (zstd at its fastest level needs most) and of the output that it has buffered, in
/// bytes.
pub const ENCODER_BYTES: u64 = 2 << 20;
/// Bytes that are compressed before the task yields to other requests.
const TURN_BYTES: usize = 32 << 10;

/// Marks a response that may be compressed.
#[derive(Clone, Copy)]
struct Prepared;

/// Returns the layer that compresses marked responses.
pub fn compression_layer() -> CompressionLayer<impl Predicate> {
    let prepared = |_: StatusCode, _: Version, _: &HeaderMap, extensions: &Extensions| {
        extensions.get::<Prepared>().is_some()
    };
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(prepared)
}

/// Returns true for a text of some length or of unknown length, such as an export; its `Vary` then says that
/// it may be compressed. Other formats are compressed already, or unknown. Event streams are excluded,
/// because an encoder would hold events back.
pub fn mark_compressible(response: &mut Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let text = match essence {
        "application/json" | "application/x-ndjson" => true,
        "text/event-stream" => false,
        other => other.starts_with("text/"),
    };
    let varies = text && response.body().size_hint().exact().is_none_or(|bytes| bytes >= LEAST_BYTES);
    if varies {
        response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    }
    varies
}

/// Marks a response for compression, in small chunks.
pub fn prepare_response(mut response: Response) -> Response {
    response.extensions_mut().insert(Prepared);
    response.map(|body| {
        let pieces = body.into_data_stream().map_ok(split_data).try_flatten();
        Body::from_stream(pieces.then(async |piece| {
            tokio::task::yield_now().await;
            piece
        }))
    })
}

fn split_data(data: Bytes) -> impl futures::Stream<Item = Result<Bytes, axum::Error>> {
    let starts = (0..data.len()).step_by(TURN_BYTES);
    stream::iter(starts.map(move |start| Ok(data.slice(start..data.len().min(start + TURN_BYTES)))))
}

/// Makes the tag of a compressed response weak. Different bytes need a different strong tag (RFC 9110
/// §8.8.3), but a weak tag is valid for both forms.
pub fn weaken_tag(mut response: Response) -> Response {
    let headers = response.headers();
    if headers.contains_key(CONTENT_ENCODING)
        && let Some(tag) = headers.get(ETAG).and_then(|tag| tag.to_str().ok())
        && let Ok(weak) = HeaderValue::try_from(format!("W/{tag}"))
    {
        response.headers_mut().insert(ETAG, weak);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_and_texts_of_unknown_length_are_compressed_and_events_are_not() {
        let stream = || Body::from_stream(stream::iter([Ok::<_, axum::Error>("a")]));
        let sized = |bytes| Body::from("a".repeat(bytes));
        for (kind, body, compressed) in [
            ("application/json", sized(1_024), true),
            ("application/json", sized(1_023), false),
            ("text/plain; charset=utf-8", sized(1_024), true),
            ("text/csv; charset=utf-8; header=present", stream(), true),
            ("application/x-ndjson", stream(), true),
            ("application/octet-stream", stream(), false),
            ("text/event-stream", stream(), false),
        ] {
            let mut response = Response::new(body);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            assert_eq!(mark_compressible(&mut response), compressed, "{kind}");
            assert_eq!(response.headers().contains_key(VARY), compressed, "{kind}");
        }
    }
}
