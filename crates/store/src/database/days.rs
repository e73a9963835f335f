//! Days as text in answers.

time::serde::format_description!(pub(crate) day, Date, "[year]-[month]-[day]");
