//! Values of `crash` and of its threads for the text, found in one pass over each.

use crate::json::Value;
use crate::report::summary::facts::PartFacts;

/// The part's own `crash`.
#[derive(Default)]
pub(super) struct Crash<'a> {
    /// The values of `threads`, objects or not.
    pub(super) threads: Vec<Value<'a>>,
    pub(super) crashed_thread: Option<Thread<'a>>,
    pub(super) diagnosis: Option<Value<'a>>,
    /// False for the main part of a report about memory: none of its threads crashed.
    pub(super) has_crashed: bool,
    /// The thread that the part is about.
    pub(super) subject: Option<Thread<'a>>,
}

/// A thread object.
pub(super) struct Thread<'a> {
    /// Its `index`, or else its position.
    pub(super) number: u64,
    pub(super) name: Option<Value<'a>>,
    pub(super) queue: Option<Value<'a>>,
    pub(super) crashed: Option<bool>,
    /// `registers.basic`.
    pub(super) registers: Option<Value<'a>>,
    pub(super) notable_addresses: Option<Value<'a>>,
    pub(super) stack: Option<Value<'a>>,
}

impl<'a> Crash<'a> {
    pub(super) fn from_facts(facts: &PartFacts<'_, 'a>) -> Crash<'a> {
        let has_crashed = facts.report.part_without_crash() != Some(facts.index);
        let Some(crash) = facts.crash() else { return Crash { has_crashed, ..Crash::default() } };
        let [threads, crashed_thread, diagnosis] =
            crash.find_members(["threads", "crashed_thread", "diagnosis"]);
        Crash {
            threads: threads.map(Value::items).unwrap_or_default(),
            crashed_thread: crashed_thread.and_then(|thread| Thread::from_value(thread, 0)),
            diagnosis,
            has_crashed,
            subject: facts
                .subject_thread()
                .and_then(|(thread, position)| Thread::from_value(thread, position)),
        }
    }
}

impl<'a> Thread<'a> {
    /// Reads a thread. Returns `None` for a value that is not an object.
    pub(super) fn from_value(thread: Value<'a>, position: usize) -> Option<Thread<'a>> {
        if !thread.is_object() {
            return None;
        }
        let [index, name, queue, crashed, registers, notable_addresses, stack] = thread.find_members([
            "index",
            "name",
            "dispatch_queue",
            "crashed",
            "registers",
            "notable_addresses",
            "stack",
        ]);
        Some(Thread {
            number: index.and_then(Value::as_unsigned).unwrap_or(position as u64),
            name,
            queue,
            crashed: crashed.and_then(Value::as_boolean),
            registers: registers.and_then(|registers| registers.get("basic")),
            notable_addresses,
            stack,
        })
    }
}
