//! W3C trace context (<https://www.w3.org/TR/trace-context/>, version 00), which follows a report from header
//! to header.

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes ids for spans and requests: distinct, not guessable, worth nothing to who guesses them.
/// SipHash of a counter under keys that the process got from the operating system.
#[derive(Debug, Default)]
pub struct Ids {
    keys: RandomState,
    next: AtomicU64,
}

impl Ids {
    /// Sixty-four bits that were not given out before, never zero.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.keys.hash_one(self.next.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

/// Where a request stands in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace's id, not zero.
    pub trace: u128,
    /// This service's span, not zero.
    pub span: u64,
    /// The flags byte; bit 0 says that the trace is sampled.
    pub flags: u8,
}

impl TraceContext {
    /// A new span in the trace that the `traceparent` header names; in a new trace where the header
    /// is absent or not valid.
    #[must_use]
    pub fn continued(traceparent: Option<&str>, ids: &Ids) -> TraceContext {
        let (trace, flags) = traceparent
            .and_then(parse)
            .unwrap_or_else(|| (u128::from(ids.next()) << 64 | u128::from(ids.next()), 1));
        TraceContext { trace, span: ids.next(), flags }
    }

    /// The `traceparent` header for what this span calls.
    #[must_use]
    pub fn header(&self) -> String {
        let mut text = String::with_capacity(55);
        // Writing to a String has no error.
        let _ = write!(text, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags);
        text
    }
}

/// The trace's id and flags in a `traceparent`.
fn parse(text: &str) -> Option<(u128, u8)> {
    let lower_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let known = lower_hex(version, 2)
        && version != "ff"
        && lower_hex(trace, 32)
        && lower_hex(span, 16)
        && lower_hex(flags, 2)
        // Later versions may append fields, version 00 has none.
        && (version != "00" || parts.next().is_none());
    if !known || u64::from_str_radix(span, 16).ok()? == 0 {
        return None;
    }
    let trace = u128::from_str_radix(trace, 16).ok()?;
    (trace != 0).then_some((trace, u8::from_str_radix(flags, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_trace_is_continued_in_a_new_span() {
        let ids = Ids::default();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::continued(Some(parent), &ids);
        assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_ne!(context.span, 0x00f0_67aa_0ba9_02b7);
        assert!(context.header().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert_eq!(parse(&context.header()), Some((context.trace, 1)));
    }

    #[test]
    fn what_is_no_traceparent_starts_a_new_trace() {
        for text in [
            "",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra").is_some());
    }
}
