//! Any bytes as a message or as a report inside one: read or refused, and no larger than allowed.

use unslide_proto::body::{compress, decompress};
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{LedgerRecord, Resymbolicate, TerminalOutcome};
use unslide_proto::symbol::{SymbolEvent, TenantConfig};
use unslide_proto::trace::{Ids, TraceContext};
use unslide_proto::{Message, stacks};

const LIMIT: usize = 1 << 20;

pub fn check(data: &[u8]) {
    inline(data);
    trace(data);
    if let Ok(request) = Resymbolicate::decode(data) {
        let _ =
            (request.report(), request.needs.iter().map(unslide_proto::report::Need::id).collect::<Vec<_>>());
        if let Some(Body::InlineLz4(body)) = &request.body {
            inline(body);
        }
        assert_eq!(Resymbolicate::decode(&request.encode_to_vec()[..]).expect("what was written"), request);
    }
    if let Ok(event) = SymbolEvent::decode(data) {
        let _ = (event.owner(), event.id());
    }
    let _ = TenantConfig::decode(data).map(|config| config.id());
    if let Ok(record) = LedgerRecord::decode(data) {
        assert_eq!(LedgerRecord::decode(&record.encode_to_vec()[..]).expect("what was written"), record);
    }
    if let Ok(set) = stacks::read(data) {
        assert_eq!(stacks::read(&set.encode_to_vec()[..]).expect("what was written"), set);
    }
    let _ = TerminalOutcome::decode(data).map(|outcome| outcome.report());
}

/// A trace goes on as it came, or a new one begins.
fn trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let ids = Ids::default();
    let context = TraceContext::continued(Some(text), &ids);
    let again = TraceContext::continued(Some(&context.header()), &ids);
    assert_eq!((again.trace, again.flags), (context.trace, context.flags));
    assert_ne!(again.span, context.span);
}

fn inline(body: &[u8]) {
    if let Ok(report) = decompress(body, LIMIT) {
        assert!(report.len() <= LIMIT);
        assert_eq!(decompress(&compress(&report), LIMIT).expect("what was written"), report);
    }
}
