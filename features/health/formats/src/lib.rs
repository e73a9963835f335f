//! Metrics that apps measure about themselves: launch times, processor time, disk writes, network requests
//! and more, for one device and period. Reads MetricKit's payloads and a JSON format of our own.
//!
//! The feature `health` stores and shows them. This package reads them without I/O, for the fuzzer too.

#![expect(missing_docs, reason = "the fields and variants of a format say what they are by their names")]

mod app_end;
mod device_day;
mod launch;
mod measurement;
mod metric_kit;
mod metric_report;
mod name;
mod path_template;
mod payload;
mod power;
mod request;
mod request_connection;
mod request_error;
mod samples;
mod sent_item;
mod termination_counts;
#[cfg(test)]
mod tests;

pub use app_end::{AppEndCause, AppEnds};
pub use device_day::DeviceDay;
pub use name::{MetricName, MetricUnit};
pub use path_template::make_template;
pub use payload::{MAX_PAYLOAD_BYTES, MetricPayload, WEIGHT_UNIT};
pub use power::{BatteryMoment, BatteryPeriod, BatteryState};
pub use request::RequestTiming;
pub use request_error::find_error_name;
pub use samples::{Sample, StateSample};
