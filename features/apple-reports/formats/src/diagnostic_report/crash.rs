//! Facts of a crash report about the end of the process.

use super::members::{bits, find, raw_text, text};
use super::notes::Notes;
use crate::metric_kit::crash::{CrashFacts, ThrownException};
use unslide_report::JsonValue;

/// Reads the members beside the call stack tree.
pub fn read_facts(diagnostic: JsonValue<'_>, notes: &mut Notes) -> CrashFacts {
    let [exception, code, signal, region, termination, category, thrown] = find(
        diagnostic,
        [
            "exceptionType",
            "exceptionCode",
            "signal",
            "virtualMemoryRegionInfo",
            "terminationReason",
            "terminationCategory",
            "exceptionReason",
        ],
    );
    for (key, value) in [("exceptionType", exception), ("exceptionCode", code), ("signal", signal)] {
        if let Some(value) = value.filter(|value| bits(Some(*value)).is_none()) {
            notes.record_unread(|| format!("{key} is {}, not a number", super::type_name(value)));
        }
    }
    CrashFacts {
        exception: bits(exception),
        code: bits(code),
        signal: bits(signal),
        region: text(region),
        termination: raw_text(termination, notes),
        thrown: thrown.filter(|thrown| thrown.is_object()).map(|thrown| {
            let [message, name, class] = find(thrown, ["composedMessage", "exceptionName", "className"]);
            ThrownException { name: text(name).or_else(|| text(class)), message: text(message) }
        }),
        category: raw_text(category, notes),
    }
}
