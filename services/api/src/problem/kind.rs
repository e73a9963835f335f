//! The kinds of failures: one table with the slugs that clients compare and the texts that people read.

use http::StatusCode;
use unslide_report::ReadError;

macro_rules! kinds {
    ($($name:ident = ($status:ident, $slug:literal, $title:literal, $meaning:literal, $advice:literal),)+) => {
        /// A kind of failure. Its slug is part of the public interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $meaning] $name,)+
        }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$name),+];

            /// Returns the HTTP status of the kind.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Kind::$name => StatusCode::$status,)+ }
            }

            /// Returns the last part of the kind's `type`.
            #[must_use]
            pub fn slug(self) -> &'static str {
                match self { $(Kind::$name => $slug,)+ }
            }

            /// Returns a short sentence for people, the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Kind::$name => $title,)+ }
            }

            /// Returns the meaning of the problem, for its page.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Kind::$name => $meaning,)+ }
            }

            /// Returns advice for clients, for the problem's page.
            #[must_use]
            pub fn advice(self) -> &'static str {
                match self { $(Kind::$name => $advice,)+ }
            }
        }
    };
}

kinds! {
    InvalidRequest = (
        BAD_REQUEST, "invalid-request", "The HTTP request is not valid",
        "The request line or a header is malformed, or an HTTP/1.1 request has no Host header or several.",
        "Send the request with a current HTTP client. If there is a proxy in front of the API, check its changes to requests."
    ),
    InvalidParameter = (
        BAD_REQUEST, "invalid-parameter", "A parameter is not valid",
        "A path, query or header parameter cannot be used. The detail names the parameter.",
        "Correct the parameter. The OpenAPI document lists every parameter with its limits."
    ),
    InvalidBody = (
        BAD_REQUEST, "invalid-body", "The request body is not valid",
        "The JSON body does not match the operation's schema. The detail names the place.",
        "Compare the body with the operation's schema in the OpenAPI document."
    ),
    InvalidReport = (
        BAD_REQUEST, "invalid-report", "A report is not valid JSON",
        "A crash report cannot be read as JSON.",
        "Send the report as the SDK wrote it. If the file was cut off or edited, it cannot be used."
    ),
    NotAReport = (
        BAD_REQUEST, "not-a-report", "It is not a crash report",
        "The JSON is valid, but it is not an object, has neither `crash` nor `recrash_report`, or is a payload of MetricKit with several diagnostics.",
        "Send KSCrash reports, or crash logs as Apple writes them: `.ips`, `.crash`, or payloads of MetricKit. The detail names other formats."
    ),
    InvalidUpload = (
        BAD_REQUEST, "invalid-upload", "The upload is not valid",
        "The upload is empty, or its multipart framing is broken.",
        "Send the file again, as the body itself or as a part with a file name."
    ),
    IncompleteBody = (
        BAD_REQUEST, "incomplete-body", "The body ended early",
        "The connection ended before the whole body arrived.",
        "Send the request again. Large files can be sent in parts: see `POST /v1/symbols/uploads`."
    ),
    ChecksumMismatch = (
        BAD_REQUEST, "checksum-mismatch", "The body does not match its checksum",
        "The SHA-256 of the received body is not the one that the client announced.",
        "Send the request again. If it fails again, the file changed while it was read, or the announced hash is wrong."
    ),
    Unauthorized = (
        UNAUTHORIZED, "unauthorized", "A valid API key is needed",
        "The request has no API key, or one that is unknown, expired or revoked.",
        "Send a valid key as `Authorization: Bearer unslide_…`. A tenant's administrator can create keys."
    ),
    UnsignedHook = (
        UNAUTHORIZED, "unsigned-hook", "The hook is not signed with its secret",
        "A service called a hook without a signature or a token, with one that is too old, or with one that was made with another secret.",
        "Give the service that calls the hook the secret that is set here, or set its secret here. A hook needs no API key."
    ),
    InsufficientScope = (
        FORBIDDEN, "insufficient-scope", "The API key may not do this",
        "The key is valid, but lacks the scope that the operation needs, or is limited to another app.",
        "Use a key with the scope that the detail names. A tenant's administrator can create one."
    ),
    TenantSuspended = (
        FORBIDDEN, "tenant-suspended", "The tenant is suspended",
        "A suspended tenant can read and delete its data, but cannot add or change any.",
        "Ask the operator of the service to resume the tenant."
    ),
    SignalSwitchedOff = (
        FORBIDDEN, "signal-switched-off", "The app does not keep this signal",
        "The settings of the app switch off this signal. It was counted and not kept.",
        "Do not send it again. `GET /v1/apps/{app}/signals` lists the signals that an app keeps. Change them in the app's settings."
    ),
    NotFound = (
        NOT_FOUND, "not-found", "There is no such resource",
        "The resource does not exist, or belongs to another tenant.",
        "Check the path and the ids in it, and that the key belongs to the right tenant."
    ),
    MethodNotAllowed = (
        METHOD_NOT_ALLOWED, "method-not-allowed", "The resource has no such method",
        "The path exists, but does not support this method. The `Allow` header lists the supported methods.",
        "Use one of the listed methods."
    ),
    NotAcceptable = (
        NOT_ACCEPTABLE, "not-acceptable", "No acceptable representation",
        "The operation cannot produce any of the media types in the `Accept` header.",
        "Ask for `application/json` or `text/plain`, or for a report as `text/markdown`."
    ),
    BodyTimeout = (
        REQUEST_TIMEOUT, "body-timeout", "The body came too slowly",
        "The body stalled, or arrived more slowly than the service allows.",
        "Send less in one request, or send it again over a faster connection. Large files can be sent in parts: see `POST /v1/symbols/uploads`."
    ),
    Conflict = (
        CONFLICT, "conflict", "It exists already",
        "A resource with this name exists already.",
        "Choose another name, or use the resource that exists."
    ),
    IncompleteUpload = (
        CONFLICT, "incomplete-upload", "Parts of the upload are missing",
        "An upload was to be completed, but some of its parts have not arrived.",
        "Send `POST /v1/symbols/uploads` for the same file: the answer lists the parts that arrived. Send the others, and complete the upload again."
    ),
    UploadEnded = (
        CONFLICT, "upload-ended", "The upload takes no parts any more",
        "The upload was completed, failed, or had no new part for too long.",
        "Look at the upload's status. If the file is not there, begin a new upload."
    ),
    LimitReached = (
        CONFLICT, "limit-reached", "A limit of the tenant is reached",
        "The tenant has the largest allowed number of something, such as keys. The detail names the limit.",
        "Remove what is no longer used, such as revoked or unused keys, and send the request again."
    ),
    GroupMerged = (
        CONFLICT, "group-merged", "The group is merged into another one",
        "The group counts for another one, and that one has the state, comments and merges. The detail names both.",
        "Send the request for the group that it is merged into, or split it off first."
    ),
    AlreadyReplayed = (
        CONFLICT, "already-replayed", "It was replayed already",
        "The dead letter was replayed before, and the request does not ask to replay it again.",
        "To replay it once more, send `{\"again\": true}`."
    ),
    BodyNotKept = (
        GONE, "body-not-kept", "The body of the report is not kept",
        "Of a bug that comes very often, the tenant keeps a number of bodies a day. The report is stored and counted, but what the device sent is not.",
        "Read the report that the detail names: it is of the same bug, and the most like this one. `report` has what is stored of this one."
    ),
    TooLarge = (
        PAYLOAD_TOO_LARGE, "too-large", "The body is too large",
        "The body, or one of its parts, is over a limit of the service or of the tenant. The detail names the limit.",
        "Send less in one request. If one file or report alone is over the limit, ask the operator for a higher limit."
    ),
    UriTooLong = (
        URI_TOO_LONG, "uri-too-long", "The URI is too long",
        "The path and query have more bytes than the service reads.",
        "Send fewer parameters in one request."
    ),
    HeadTooLarge = (
        REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", "The request has too many headers, or too large ones",
        "The request line and the headers exceed the limits: 100 headers and 400 KiB.",
        "Remove headers that the operation does not need. If there is a proxy in front of the API, check the headers that it adds."
    ),
    UnsupportedFormat = (
        UNSUPPORTED_MEDIA_TYPE, "unsupported-format", "The format is not supported",
        "The operation does not support the body's content type or content coding.",
        "Send one of the media types that the OpenAPI document lists for the operation, plain or gzipped."
    ),
    RateLimited = (
        TOO_MANY_REQUESTS, "rate-limited", "Rate limit exceeded",
        "The tenant exceeded a rate limit. The detail names the limit.",
        "Send the same request again after the seconds in `Retry-After`."
    ),
    TenantBusy = (
        TOO_MANY_REQUESTS, "tenant-busy", "Too many concurrent requests",
        "The tenant has the largest allowed number of requests or bytes in flight.",
        "Send the same request again after the seconds in `Retry-After`, and fewer requests at the same time."
    ),
    SymbolQuota = (
        INSUFFICIENT_STORAGE, "symbol-quota", "The tenant's storage for symbols is used up",
        "The tenant's stored symbols have reached its limit.",
        "Delete symbols of old versions, or ask the operator for more storage."
    ),
    Internal = (
        INTERNAL_SERVER_ERROR, "internal", "Internal error",
        "The service failed. The cause is in its log, under the request's id.",
        "Tell the operator the `request_id`. The same request may fail again until the fault is corrected."
    ),
    Unavailable = (
        SERVICE_UNAVAILABLE, "unavailable", "The service can't answer now",
        "A server that the operation needs does not answer now.",
        "Send the same request again after the seconds in `Retry-After`."
    ),
    Overloaded = (
        SERVICE_UNAVAILABLE, "overloaded", "Too many requests at once",
        "The service has the largest number of requests in flight that it accepts from all tenants together.",
        "Send the same request again after the seconds in `Retry-After`."
    ),
}

impl Kind {
    /// Returns the kind's `type`: the path of the page that explains it.
    #[must_use]
    pub fn uri(self) -> String {
        format!("/problems/{}", self.slug())
    }

    /// Returns true if a client may send the same request again later: `Retry-After` says when.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        matches!(self.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }

    /// Returns the kind for a report that cannot be read. It follows the reason of a dead letter for the same
    /// report.
    #[must_use]
    pub fn from_read_error(error: &ReadError) -> Kind {
        match error.reason() {
            "too_large" => Kind::TooLarge,
            "not_a_report" => Kind::NotAReport,
            _ => Kind::InvalidReport,
        }
    }

    /// Returns the kind for a bare HTTP error status.
    #[must_use]
    pub fn from_status(status: StatusCode) -> Kind {
        match status {
            StatusCode::BAD_REQUEST => Kind::InvalidRequest,
            StatusCode::NOT_FOUND => Kind::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Kind::MethodNotAllowed,
            StatusCode::NOT_ACCEPTABLE => Kind::NotAcceptable,
            StatusCode::SERVICE_UNAVAILABLE => Kind::Unavailable,
            StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLarge,
            StatusCode::URI_TOO_LONG => Kind::UriTooLong,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Kind::HeadTooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Kind::UnsupportedFormat,
            StatusCode::REQUEST_TIMEOUT => Kind::BodyTimeout,
            status if status.is_client_error() => Kind::InvalidRequest,
            _ => Kind::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_cannot_be_read_has_one_kind_for_each_reason() {
        let (offset, limit, expected) = (0, 1, "a value");
        let errors = [
            ReadError::TooLarge { bytes: 2, limit },
            ReadError::TooDeep { offset, limit },
            ReadError::TreeTooDeep { offset, limit },
            ReadError::NotJson { offset, expected },
            ReadError::Truncated { offset, expected },
            ReadError::TooMany { limit },
            ReadError::TooManyItems { offset, limit },
            ReadError::NotAReport { offset, found: "an array" },
            ReadError::Diagnostics { count: 2 },
            ReadError::NoCrash { missing: "it has neither" },
            ReadError::Unsupported { problem: "it is a stackshot".to_owned() },
        ];
        for error in errors {
            // A variant that is added has to be added above, too.
            let kind = match error {
                ReadError::TooLarge { .. } => Kind::TooLarge,
                ReadError::TooDeep { .. }
                | ReadError::TreeTooDeep { .. }
                | ReadError::NotJson { .. }
                | ReadError::Truncated { .. }
                | ReadError::TooMany { .. }
                | ReadError::TooManyItems { .. } => Kind::InvalidReport,
                ReadError::NotAReport { .. }
                | ReadError::Diagnostics { .. }
                | ReadError::NoCrash { .. }
                | ReadError::Unsupported { .. } => Kind::NotAReport,
            };
            assert_eq!(Kind::from_read_error(&error), kind, "{}", error.reason());
        }
    }

    #[test]
    fn slugs_are_unique_and_stable() {
        let slugs: Vec<_> = Kind::ALL.iter().map(|k| (k.slug(), k.status().as_u16())).collect();
        insta::assert_debug_snapshot!(slugs);
        let mut unique: Vec<_> = slugs.iter().map(|(slug, _)| slug).collect();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), slugs.len());
    }
}
