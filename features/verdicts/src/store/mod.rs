//! The statements of the feature: counts of reports, machines, and groups that wait for a verdict.

mod counts;
mod held;
mod machines;
mod rule;

pub use counts::{NO_SESSIONS, ReportDay, list_group_days, list_new_crash_days};
pub use held::{claim_held, hold, list_due, release};
pub use machines::{ComparedDevice, list_crashed_machines, sample_installations};
pub use rule::{RegressionRule, read_rule, set_rule};
