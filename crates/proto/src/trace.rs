//! W3C trace context (<https://www.w3.org/TR/trace-context/>, version 00). Each record carries it in a header to the
//! next.

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Generator of ids for spans and requests. They are distinct, hard to guess, and useless to an attacker.
/// Each is the SipHash of a counter, with keys from the operating system.
#[derive(Debug, Default)]
pub struct Ids {
    keys: RandomState,
    next: AtomicU64,
}

impl Ids {
    /// Returns sixty-four bits that were not returned before. Never zero.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.keys.hash_one(self.next.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

/// The flag of a trace with recorded spans.
const SAMPLED: u8 = 1;

/// The position of a request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace's id, not zero.
    pub trace: u128,
    /// This service's span, not zero.
    pub span: u64,
    /// The flags byte. Bit 0 is set if the trace is sampled.
    pub flags: u8,
}

impl TraceContext {
    /// Creates a span in the trace of the `traceparent` header. Begins a new trace if the header
    /// is absent or not valid.
    #[must_use]
    pub fn from_parent(traceparent: Option<&str>, ids: &Ids) -> TraceContext {
        let (trace, flags) = traceparent.and_then(TraceContext::from_header).map_or_else(
            || (u128::from(ids.next()) << 64 | u128::from(ids.next()), SAMPLED),
            |parent| (parent.trace, parent.flags),
        );
        TraceContext { trace, span: ids.next(), flags }
    }

    /// Reads a `traceparent` header, written by the parent span. Returns `None` if it is not valid.
    #[must_use]
    pub fn from_header(text: &str) -> Option<TraceContext> {
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
            // Later versions may append fields, but version 00 has none.
            && (version != "00" || parts.next().is_none());
        if !known {
            return None;
        }
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (trace != 0 && span != 0).then_some(TraceContext { trace, span, flags })
    }

    /// Returns true if the spans of the trace are recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Sets whether the spans of the trace are recorded.
    #[must_use]
    pub fn with_sampled(self, is_sampled: bool) -> TraceContext {
        let flags = if is_sampled { self.flags | SAMPLED } else { self.flags & !SAMPLED };
        TraceContext { flags, ..self }
    }

    /// Returns the `traceparent` header for requests of this span.
    #[must_use]
    pub fn format_header(&self) -> String {
        let mut text = String::with_capacity(55);
        // Writing to a String has no error.
        let _ = write!(text, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_trace_is_continued_in_a_new_span() {
        let ids = Ids::default();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::from_parent(Some(parent), &ids);
        assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_ne!(context.span, 0x00f0_67aa_0ba9_02b7);
        assert!(context.format_header().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert_eq!(TraceContext::from_header(&context.format_header()), Some(context));
        assert!(context.is_sampled() && !context.with_sampled(false).is_sampled());
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
            assert_eq!(TraceContext::from_header(text), None, "{text}");
        }
        assert!(
            TraceContext::from_header("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra")
                .is_some()
        );
    }
}
