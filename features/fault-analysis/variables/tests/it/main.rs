//! Values of variables against what lldb shows of planned crashes.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod lab;
mod templates;
