//! The form of a request, by its headers.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use unslide_api::problem::{Kind, Problem};
use unslide_otlp_formats::{TelemetryEncoding, TelemetrySignal};

/// The media types of both encodings.
pub const PROTOBUF_TYPE: &str = "application/x-protobuf";
pub const JSON_TYPE: &str = "application/json";

/// The form of a request and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestForm {
    pub encoding: TelemetryEncoding,
    pub signal: TelemetrySignal,
}

impl RequestForm {
    /// Returns the form that the headers of a request name.
    ///
    /// # Errors
    /// [`Kind::UnsupportedFormat`].
    pub fn from_headers(headers: &HeaderMap, signal: TelemetrySignal) -> Result<RequestForm, Problem> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = text(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let encoding = match essence.as_str() {
            PROTOBUF_TYPE | "application/protobuf" => TelemetryEncoding::Protobuf,
            JSON_TYPE => TelemetryEncoding::Json,
            _ => {
                let detail = format!("content-type: OTLP is {PROTOBUF_TYPE} or {JSON_TYPE}");
                return Err(Problem::new(Kind::UnsupportedFormat, detail));
            }
        };
        // The bytes themselves show whether they are packed.
        let coding = text(CONTENT_ENCODING).trim().to_ascii_lowercase();
        if !["", "identity", "gzip", "x-gzip", "zstd"].contains(&coding.as_str()) {
            let detail = "content-encoding: gzip and zstd are supported";
            return Err(Problem::new(Kind::UnsupportedFormat, detail));
        }
        Ok(RequestForm { encoding, signal })
    }

    /// Returns the form of an answer to a request of an unknown form.
    pub fn for_unknown_type(signal: TelemetrySignal) -> RequestForm {
        RequestForm { encoding: TelemetryEncoding::Json, signal }
    }
}
