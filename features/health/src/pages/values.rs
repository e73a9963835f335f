//! Columns of the pages.

pub(super) use crate::figure_text::{format_value, whole};
use unslide_health_formats::MetricName;
use unslide_model::figures::format_decimals;

/// The columns: signal, head, and description.
pub(super) const COLUMNS: [(&str, &str, &str); 25] = [
    ("crash_free_sessions", "Crash-free sessions", "Sessions that did not end with a crash"),
    ("crash_free_users", "Crash-free users", "Users without a session that crashed, approximately"),
    (
        "out_of_memory_sessions",
        "Out of memory",
        "Sessions on the screen that the system ended for lack of memory",
    ),
    ("hang_time", "Hangs", "How long the main thread did not answer, each time"),
    ("hang_rate", "Hangs an hour", "Hangs of one device in an hour on the screen"),
    ("launch_time", "Launch", "From the start of the process to the first frame"),
    ("cold_launch_before_main", "Cold launch before main", "From the start of the process to `main`"),
    ("cold_launch_first_frame", "Cold launch to first frame", "From `main` to the first frame"),
    ("cold_launch_interactive", "Cold launch to interactive", "From `main` until a person can use the app"),
    ("warm_launch_before_main", "Warm launch before main", "The same with the app still in memory"),
    ("warm_launch_first_frame", "Warm launch to first frame", "From `main` to the first frame"),
    ("warm_launch_interactive", "Warm launch to interactive", "From `main` until a person can use the app"),
    (
        "prewarmed_launch_before_main",
        "Prewarmed launch before main",
        "The same of a process that the system prepared: it may have waited",
    ),
    ("prewarmed_launch_first_frame", "Prewarmed launch to first frame", "From `main` to the first frame"),
    (
        "prewarmed_launch_interactive",
        "Prewarmed launch to interactive",
        "From `main` until a person can use the app",
    ),
    (
        "battery_drain",
        "Battery",
        "Percent of the battery that one device used in an hour on the screen, without a charger",
    ),
    ("cpu_time_per_hour", "CPU", "Processor time that one device used in each hour that the app ran"),
    ("energy_per_hour", "Energy", "What one device used in each hour that the app ran"),
    ("disk_writes_per_hour", "Disk writes", "What one device wrote in each hour that the app ran"),
    ("peak_memory", "Peak memory", "The most that one device used in one period"),
    ("frame_rate", "Frame rate", "Frames in a second; p5 is the slowest twentieth"),
    ("hitch_ratio", "Hitches", "Late frames, in milliseconds of each second of animation"),
    ("page_load_time", "Page load", "From the request until a page can be used"),
    ("request_failures", "Failed requests", "Requests without an answer, or that the app counts as failed"),
    ("request_total", "Request time", "How long requests took"),
];

/// Returns the metric of a column; `None` for a figure of sessions.
pub(super) fn column_metric(signal: &str) -> Option<MetricName> {
    if signal == "request_failures" { Some(MetricName::Requests) } else { MetricName::parse(signal) }
}

/// Formats a share in percent.
pub(super) fn format_share(value: f64) -> String {
    format!("{} %", format_decimals(value * 100.0, 2))
}
