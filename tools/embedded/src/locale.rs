//! The locale of servers and of Maven, which is not the user's.

/// The variable and its value. Programs change letters by the rules of the user's language: in Turkish the small letter of "I"
/// is "ı".
pub(crate) const LOCALE: (&str, &str) = ("LC_ALL", "C.UTF-8");
