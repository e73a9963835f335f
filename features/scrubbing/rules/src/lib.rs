//! Rules that take personal data out of a report before it is stored. Pure: a report and rules in, a report out.
//!
//! [`ScrubRules`] compiles a [`ScrubConfig`]. [`ScrubRules::scrub_report`] replaces what the rules name in the texts of a report and in
//! the app's own keys. Every other byte is unchanged, and the members that symbolication and grouping read are never changed. The same
//! report and rules always give the same bytes, and a scrubbed report is not changed by the same rules.

#![warn(missing_docs)]

mod check_digits;
mod config;
mod cut;
mod document;
mod mark;
mod pattern;
mod ready;
mod rules;
mod scrub_place;
mod taken;
mod text;

pub use config::{
    KEY_NAME_BYTES, KeepOnlyRule, KeyRule, OWN_PATTERN_BYTES, OwnRule, RULES_LIMIT, ReadyPattern, ReadyRule,
    ScrubAction, ScrubConfig, ScrubConfigError,
};
pub use document::{ScrubError, ScrubbedReport};
pub use mark::ScrubSalt;
pub use rules::ScrubRules;
pub use taken::ChangedText;
pub use text::ScrubbedText;
