//! Any bytes as a message or as a report inside one: read or refused, and no larger than allowed.

use unslide_proto::Message;
use unslide_proto::body::{compress, decompress};
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{Resymbolicate, TerminalOutcome};
use unslide_proto::symbol::{SymbolEvent, TenantConfig};

const LIMIT: usize = 1 << 20;

pub fn check(data: &[u8]) {
    inline(data);
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
    let _ = TerminalOutcome::decode(data).map(|outcome| outcome.report());
}

fn inline(body: &[u8]) {
    if let Ok(report) = decompress(body, LIMIT) {
        assert!(report.len() <= LIMIT);
        assert_eq!(decompress(&compress(&report), LIMIT).expect("what was written"), report);
    }
}
