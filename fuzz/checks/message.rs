//! Any bytes as a message or as a report inside one: read or refused, and no larger than allowed.

use unslide_proto::body::{compress_report, decompress_report};
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
            (request.parse_report_id(), request.needs.iter().map(unslide_proto::report::Need::parse_debug_id).collect::<Vec<_>>());
        if let Some(Body::InlineLz4(body)) = &request.body {
            inline(body);
        }
        assert_eq!(Resymbolicate::decode(&request.encode_to_vec()[..]).expect("what was written"), request);
    }
    if let Ok(event) = SymbolEvent::decode(data) {
        let _ = (event.parse_owner(), event.parse_debug_id());
    }
    let _ = TenantConfig::decode(data).map(|config| config.parse_tenant_id());
    if let Ok(record) = LedgerRecord::decode(data) {
        assert_eq!(LedgerRecord::decode(&record.encode_to_vec()[..]).expect("what was written"), record);
    }
    if let Ok(set) = stacks::read_stack_set(data) {
        assert_eq!(stacks::read_stack_set(&set.encode_to_vec()[..]).expect("what was written"), set);
    }
    let _ = TerminalOutcome::decode(data).map(|outcome| outcome.parse_report_id());
}

/// A trace goes on as it came, or a new one begins.
fn trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let ids = Ids::default();
    let context = TraceContext::from_parent(Some(text), &ids);
    let again = TraceContext::from_parent(Some(&context.format_header()), &ids);
    assert_eq!((again.trace, again.flags), (context.trace, context.flags));
    assert_ne!(again.span, context.span);
}

fn inline(body: &[u8]) {
    if let Ok(report) = decompress_report(body, LIMIT) {
        assert!(report.len() <= LIMIT);
        assert_eq!(decompress_report(&compress_report(&report), LIMIT).expect("what was written"), report);
    }
}
