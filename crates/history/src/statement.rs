//! Statements with a constant text, and the parameters that the server binds.

use crate::rows::{HistoryPlace, HistoryVersion};
use reqwest::multipart::Form;
use std::fmt::{Display, Write};
use time::format_description::BorrowedFormatItem;
use time::macros::{datetime, format_description};
use time::{OffsetDateTime, UtcOffset};

/// A statement. Its text is made of constants and checked names only, so that no value becomes a part of it.
pub(crate) struct Statement {
    text: String,
    parameters: Vec<(String, Parameter)>,
}

/// A value that the server binds, as the text that it reads.
pub(crate) struct Parameter(String);

/// Ids in one parameter: a server takes 128 KiB of each.
const PARAMETER_IDS: usize = 2_500;
/// The most parameters of ids. With more ids their condition is left out.
const ID_PARAMETERS: usize = 8;

impl Statement {
    pub(crate) fn new(text: &'static str) -> Statement {
        Statement { text: text.to_owned(), parameters: Vec::new() }
    }

    /// Begins with a text that has names of the schema.
    pub(crate) fn with_names(text: String) -> Statement {
        Statement { text, parameters: Vec::new() }
    }

    pub(crate) fn push(&mut self, text: &'static str) -> &mut Statement {
        self.text.push_str(text);
        self
    }

    /// Adds a text that names this parameter once or more, and its value.
    pub(crate) fn push_with(
        &mut self,
        text: &'static str,
        name: &'static str,
        value: Parameter,
    ) -> &mut Statement {
        debug_assert!(text.contains(&format!("{{{name}:")), "{text}");
        self.text.push_str(text);
        self.bind(name, value)
    }

    pub(crate) fn bind(&mut self, name: &str, value: Parameter) -> &mut Statement {
        debug_assert!(self.parameters.iter().all(|(other, _)| other != name), "{name}");
        self.parameters.push((name.to_owned(), value));
        self
    }

    /// Adds the condition that a column has one of these ids.
    pub(crate) fn push_ids(&mut self, column: &'static str, ids: &[impl Display]) {
        if ids.is_empty() {
            self.text.push_str(" AND false");
        }
        if ids.is_empty() || ids.len() > PARAMETER_IDS * ID_PARAMETERS {
            return;
        }
        for (index, ids) in ids.chunks(PARAMETER_IDS).enumerate() {
            let begin = if index == 0 { " AND (" } else { " OR " };
            let name = format!("{column}_{index}");
            let _ = write!(self.text, "{begin}{column} IN {{{name}:Array(UUID)}}");
            self.bind(&name, Parameter::from_ids(ids));
        }
        self.text.push(')');
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Makes the form of a request.
    pub(crate) fn to_form(&self) -> Form {
        let form = Form::new().text("query", self.text.clone());
        self.parameters
            .iter()
            .fold(form, |form, (name, Parameter(value))| form.text(format!("param_{name}"), value.clone()))
    }
}

/// The times that the server has.
const FIRST_TIME: OffsetDateTime = datetime!(1900-01-01 0:00 UTC);
const LAST_TIME: OffsetDateTime = datetime!(2261-12-31 23:59:59.999_999 UTC);

const TIME_FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]");

impl Parameter {
    /// Makes a text of one, escaped as the server reads it.
    pub(crate) fn from_text(text: &str) -> Parameter {
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                // PostgreSQL has no such character, so its rows have none.
                '\0' => {}
                '\\' => escaped.push_str("\\\\"),
                '\t' => escaped.push_str("\\t"),
                '\n' => escaped.push_str("\\n"),
                '\r' => escaped.push_str("\\r"),
                other => escaped.push(other),
            }
        }
        Parameter(escaped)
    }

    pub(crate) fn from_number(number: u32) -> Parameter {
        Parameter(number.to_string())
    }

    /// Makes a UUID of one.
    pub(crate) fn from_id(id: impl Display + Copy) -> Parameter {
        Parameter(id.to_string())
    }

    pub(crate) fn from_ids(ids: &[impl Display]) -> Parameter {
        Parameter::from_items(ids, |id| format!("'{id}'"))
    }

    /// Makes a time of one; beyond those that the server has, the nearest. No report arrives there.
    pub(crate) fn from_time(at: OffsetDateTime) -> Parameter {
        Parameter(write_time(at))
    }

    pub(crate) fn from_places(places: &[HistoryPlace]) -> Parameter {
        Parameter::from_items(places, |place| {
            format!("('{}','{}',{})", write_time(place.received_at), place.report_id, place.variant)
        })
    }

    pub(crate) fn from_versions(versions: &[HistoryVersion]) -> Parameter {
        Parameter::from_items(versions, |version| {
            let HistoryPlace { received_at, report_id, variant } = version.place;
            format!("('{}','{report_id}',{variant},{})", write_time(received_at), version.version)
        })
    }

    /// Makes an array of items that have no character to be escaped.
    fn from_items<T>(items: &[T], write_item: impl Fn(&T) -> String) -> Parameter {
        let items: Vec<String> = items.iter().map(write_item).collect();
        Parameter(format!("[{}]", items.join(",")))
    }
}

/// Writes a time as the server reads it.
pub(crate) fn write_time(at: OffsetDateTime) -> String {
    let at = at.clamp(FIRST_TIME, LAST_TIME).to_offset(UtcOffset::UTC);
    at.format(TIME_FORMAT).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_time_is_written_in_utc_within_the_servers_bounds() {
        for (at, text) in [
            (datetime!(2026-11-30 02:00:00.000_001 +02:00), "2026-11-30 00:00:00.000001"),
            (datetime!(0001-01-01 0:00 UTC), "1900-01-01 00:00:00.000000"),
            (datetime!(9999-12-31 23:59 UTC), "2261-12-31 23:59:59.999999"),
        ] {
            assert_eq!(write_time(at), text);
        }
    }

    #[test]
    fn many_ids_are_several_parameters_and_too_many_are_no_condition() {
        let mut statement = Statement::new("SELECT 1 WHERE true");
        statement.push_ids("run_id", &vec![Uuid::nil(); PARAMETER_IDS + 1]);
        assert!(
            statement
                .text()
                .ends_with(" AND (run_id IN {run_id_0:Array(UUID)} OR run_id IN {run_id_1:Array(UUID)})")
        );
        assert_eq!(statement.parameters.len(), 2);
        let mut statement = Statement::new("SELECT 1 WHERE true");
        statement.push_ids("run_id", &vec![Uuid::nil(); PARAMETER_IDS * ID_PARAMETERS + 1]);
        assert_eq!(statement.text(), "SELECT 1 WHERE true");
    }
}
