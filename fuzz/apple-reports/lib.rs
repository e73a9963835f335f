//! The readers of Apple's own reports, without the feature that adds them to the services.

#[path = "../../features/apple-reports/src/call_tree/mod.rs"]
mod call_tree;
#[path = "../../features/apple-reports/src/crash_text/mod.rs"]
mod crash_text;
#[path = "../../features/apple-reports/src/identity.rs"]
mod identity;
#[path = "../../features/apple-reports/src/ips/mod.rs"]
mod ips;
#[path = "../../features/apple-reports/src/json.rs"]
mod json;
#[path = "../../features/apple-reports/src/metric_kit/mod.rs"]
mod metric_kit;
#[path = "../../features/apple-reports/src/other_formats.rs"]
mod other_formats;
#[path = "../../features/apple-reports/src/readers.rs"]
mod readers;

pub use readers::READERS;
