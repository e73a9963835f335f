//! The contracts between the services, and the fuzz targets' checks over their corpora.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod contracts;

use unslide_testkit::corpus::replay;

#[path = "../../../../fuzz/checks/message.rs"]
mod message;
#[path = "../../../../fuzz/checks/signature.rs"]
mod signature;

#[test]
fn messages_are_read_or_refused() {
    replay("message", message::check);
}

#[test]
fn only_the_gateways_own_signature_is_taken() {
    replay("signature", signature::check);
}
