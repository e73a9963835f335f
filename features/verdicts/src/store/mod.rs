//! The statements of the feature: counts of reports, devices, and groups that wait for a verdict.

mod counts;
mod devices;
mod held;
mod rule;

pub use counts::{NO_SESSIONS, ReportDay, list_group_days, list_new_crash_days};
pub use devices::{
    CrashedDevice, InstallationCounts, VALUES_OF_FLAG_LIMIT, ValueCount, count_installations,
    count_report_keys, list_crashed_devices,
};
pub use held::{claim_held, hold, list_due, release};
pub use rule::{RegressionRule, read_rule, set_rule};
