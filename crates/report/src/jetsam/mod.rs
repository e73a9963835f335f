//! Jetsam event logs: the kernel's record of all processes when it kills some for lack of memory. They have neither
//! threads nor images.
//!
//! Source: logs of bug type 298 as devices write them, with a header on the first line and the event after it. The
//! names of reasons are those of xnu's `kern_memorystatus.h`.

mod record;

use crate::device_clock::read_time;
use crate::json::{JsonScanner, Value};
use crate::{ReadError, ReadLimits};
pub(crate) use record::event_of_record;
use time::OffsetDateTime;
use unslide_model::DebugId;
use unslide_model::ended::is_memory_reason;

/// The maximum number of processes read from one event. A device has some hundred.
pub const MOST_PROCESSES: usize = 4_096;
/// The maximum number of states of one process.
const MOST_STATES: usize = 16;
/// The maximum length of a text, in characters.
const MOST_CHARS: usize = 200;
/// The length to which the kernel cuts a process's name, in characters.
const KERNEL_NAME_CHARS: usize = 32;
/// A Jetsam event. Every text comes from the device and is not verified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JetsamEvent {
    /// `incident`: the id of the event.
    pub incident: Option<String>,
    /// `crashReporterKey`: identifies one device.
    pub device: Option<String>,
    /// `product`, such as `iPhone16,1`.
    pub product: Option<String>,
    /// `build`, such as `iPhone OS 18.3.1 (22D72)`.
    pub system: Option<String>,
    /// The time of the event, by the device's clock.
    pub time: Option<OffsetDateTime>,
    /// The page size in bytes.
    pub page_size: u64,
    /// Pages by their state, such as `free` and `wired`, in the order of the log.
    pub pages: Vec<(String, u64)>,
    /// Bytes in the memory compressor.
    pub compressor: Option<u64>,
    /// The name of the process with the largest footprint; this alone does not mean that it was killed.
    pub largest_process: Option<String>,
    /// The processes, in the order of the log.
    pub processes: Vec<JetsamProcess>,
    /// The number of processes over [`MOST_PROCESSES`].
    pub left_out: u64,
}

/// One process of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JetsamProcess {
    /// The name. The kernel keeps only 32 characters of it.
    pub name: String,
    /// The debug id of the main binary.
    pub debug_id: Option<DebugId>,
    /// The process id.
    pub pid: Option<u64>,
    /// States such as `frontmost` and `suspended`.
    pub states: Vec<String>,
    /// The footprint in bytes.
    pub footprint: u64,
    /// The highest footprint in bytes. It may be lower than the footprint, which was measured later.
    pub lifetime_max: Option<u64>,
    /// The priority band.
    pub priority: Option<u64>,
    /// The reason why the kernel killed the process, or `None` if it did not.
    pub reason: Option<String>,
}

impl JetsamEvent {
    /// Reads a log: the two JSON texts of Apple's format, or the event alone.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the log is too large or too deep, or is not JSON or not a Jetsam event.
    pub fn read(bytes: &[u8], limits: &ReadLimits) -> Result<JetsamEvent, ReadError> {
        let event = event_of_record(bytes).unwrap_or(bytes);
        let mut s = JsonScanner::new(event, limits)?;
        s.skip_preamble()?;
        let start = s.pos();
        s.skip_value()?;
        s.expect_end()?;
        JetsamEvent::from_value(Value::from_offset(event, start)).ok_or(ReadError::NoCrash {
            missing: "a Jetsam event has `memoryStatus` and `processes`, and this is none",
        })
    }

    /// Reads an event that has passed the scanner. Returns `None` for any other object.
    pub(crate) fn from_value(value: Value<'_>) -> Option<JetsamEvent> {
        let [bug_type, status, processes, incident, device, product, system, date, largest] = value
            .find_members([
                "bug_type",
                "memoryStatus",
                "processes",
                "incident",
                "crashReporterKey",
                "product",
                "build",
                "date",
                "largestProcess",
            ]);
        if bug_type.is_some_and(|bug_type| !is_jetsam(bug_type)) {
            return None;
        }
        let status = status.filter(|status| status.is_object())?;
        let processes = processes.filter(|processes| processes.is_container() && !processes.is_object())?;
        let [page_size, pages, compressor] =
            status.find_members(["pageSize", "memoryPages", "compressorSize"]);
        let page_size = page_size.and_then(Value::decimal_unsigned).filter(|size| *size > 0)?;
        let mut event = JetsamEvent {
            incident: incident.and_then(read_text),
            device: device.and_then(read_text),
            product: product.and_then(read_text),
            system: system.and_then(read_text),
            time: date.and_then(read_text).as_deref().and_then(read_time),
            page_size,
            compressor: compressor
                .and_then(Value::decimal_unsigned)
                .map(|pages| pages.saturating_mul(page_size)),
            largest_process: largest.and_then(read_text),
            ..JetsamEvent::default()
        };
        if let Some(pages) = pages {
            pages.each_member(|state, count| {
                if let Some(count) = count.decimal_unsigned().filter(|_| event.pages.len() < MOST_STATES) {
                    event.pages.push((shorten_text(&String::from_utf8_lossy(state)), count));
                }
            });
        }
        processes.each_item(|process| match event.processes.len() < MOST_PROCESSES {
            true => event.processes.extend(JetsamProcess::from_value(process, page_size)),
            false => event.left_out += 1,
        });
        Some(event)
    }

    /// Returns the killed processes: first those in the foreground, then those with the largest footprints.
    #[must_use]
    pub fn killed_processes(&self) -> Vec<&JetsamProcess> {
        let mut killed: Vec<_> = self.processes.iter().filter(|process| process.reason.is_some()).collect();
        killed.sort_by_key(|process| (!process.is_foreground(), std::cmp::Reverse(process.footprint)));
        killed
    }

    /// Returns the process with this name. If several have it, a killed one is preferred.
    #[must_use]
    pub fn find_process(&self, name: &str) -> Option<&JetsamProcess> {
        let kept = |name: &str| name.chars().take(KERNEL_NAME_CHARS).collect::<String>();
        let name = kept(name);
        let found = || self.processes.iter().filter(|process| kept(&process.name) == name);
        found().find(|process| process.reason.is_some()).or_else(|| found().next())
    }

    /// Splits a text such as `iPhone OS 18.3.1 (22D72)` into the system's name, version and build.
    #[must_use]
    pub fn system_parts(&self) -> [Option<String>; 3] {
        let text = self.system.as_deref().unwrap_or_default();
        let (text, build) = text.split_once(" (").unwrap_or((text, ""));
        let (name, version) = text.rsplit_once(' ').unwrap_or((text, ""));
        [name, version, build.trim_end_matches(')')]
            .map(|part| Some(part.to_owned()).filter(|p| !p.is_empty()))
    }
}

impl JetsamProcess {
    fn from_value(value: Value<'_>, page_size: u64) -> Option<JetsamProcess> {
        if !value.is_object() {
            return None;
        }
        let [name, uuid, pid, states, pages, lifetime_max, priority, reason] = value.find_members([
            "name",
            "uuid",
            "pid",
            "states",
            "rpages",
            "lifetimeMax",
            "priority",
            "reason",
        ]);
        let mut own_states = Vec::new();
        if let Some(states) = states {
            states.each_item(|state| {
                own_states.extend(read_text(state).filter(|_| own_states.len() < MOST_STATES));
            });
        }
        let bytes = |pages: Value<'_>| Some(pages.decimal_unsigned()?.saturating_mul(page_size));
        Some(JetsamProcess {
            name: name.and_then(read_text).unwrap_or_default(),
            debug_id: uuid.and_then(Value::as_uuid).and_then(crate::json::debug_id),
            pid: pid.and_then(Value::decimal_unsigned),
            states: own_states,
            footprint: pages.and_then(bytes).unwrap_or(0),
            lifetime_max: lifetime_max.and_then(bytes),
            priority: priority.and_then(Value::decimal_unsigned),
            reason: reason.and_then(read_text).filter(|reason| !reason.is_empty()),
        })
    }

    /// Returns true if the process was in the foreground.
    #[must_use]
    pub fn is_foreground(&self) -> bool {
        self.states.iter().any(|state| state == "frontmost" || state == "active")
    }

    /// Returns true if the kernel killed the process for lack of memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.reason.as_deref().is_some_and(is_memory_reason)
    }
}

/// Returns true for a bug type of Jetsam events, as a text or a number. iOS 8 wrote the lower one.
fn is_jetsam(bug_type: Value<'_>) -> bool {
    matches!(bug_type.decimal_unsigned(), Some(198 | 298))
}

fn read_text(value: Value<'_>) -> Option<String> {
    Some(shorten_text(&value.as_text()?.decode()))
}

fn shorten_text(text: &str) -> String {
    text.chars().take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests;
