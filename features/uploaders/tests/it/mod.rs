//! Uploads of other products' clients on real servers, with the requests that these clients send.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bugsnag;
mod datadog;
mod page;
mod posthog;
mod sentry;
mod source_maps;
mod world;
