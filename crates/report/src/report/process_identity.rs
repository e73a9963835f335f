//! Identity of a process, for reports that name no run.

use crate::json::{Number, Value};
use crate::report::summary::facts::PartFacts;
use crate::report::{Frame, Image, Report};
use crate::{is_framework_name, is_system_file_name};
use unslide_model::DebugId;

/// The system image in which threads wait. Nearly every report has a frame in it.
const SYSTEM_IMAGE: &str = "libsystem_kernel.dylib";

/// A process, identified by facts that KSCrash and MetricKit share. The kernel chooses both addresses at random: that
/// of the executable for each process, that of the system's libraries at each boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u64,
    /// The debug id and the load address of the app's executable.
    pub executable: (DebugId, u64),
    /// The debug id and the load address of a library that all processes load.
    pub system: (DebugId, u64),
}

impl Report<'_> {
    /// Returns the id of the process that the report is about, also of a MetricKit diagnostic.
    #[must_use]
    pub fn process_id(&self) -> Option<u64> {
        let facts = PartFacts::for_part(self, self.main_part());
        let [pid] = facts.system_members(["process_id"]);
        let diagnostic = || self.metadata()?.get("pid").and_then(Value::decimal_unsigned);
        pid.and_then(Value::as_unsigned).or_else(diagnostic)
    }

    /// Returns true if an extension of the app wrote the report after the end of the process.
    #[must_use]
    pub fn has_corpse(&self) -> bool {
        PartFacts::for_part(self, self.main_part()).corpse().is_some()
    }

    /// Returns the number of threads of the main crash, which is the inner report if the handler crashed as well.
    #[must_use]
    pub fn thread_count(&self) -> Option<usize> {
        let facts = PartFacts::for_part(self, self.main_part());
        facts.crash_member("threads").map(|threads| threads.items().len())
    }

    /// Returns the process that ended. Returns `None` if the report lacks a part of the identity, and for a report
    /// [about memory](Report::memory_event), because another process writes it.
    #[must_use]
    pub fn process_identity(&self) -> Option<ProcessIdentity> {
        if self.memory_event().is_some() {
            return None;
        }
        let facts = PartFacts::for_part(self, self.main_part());
        let [pid, process] = facts.system_members(["process_id", "process_name"]);
        let name = facts.report_member("process_name").or(process).and_then(Value::decode_string);
        let images = &self.parts.get(facts.part()?.image_source?)?.images;
        Some(ProcessIdentity {
            pid: pid.and_then(Value::as_unsigned)?,
            executable: match name {
                Some(name) => find_image(images, &name)?,
                None => self.find_executable(images)?,
            },
            system: find_image(images, SYSTEM_IMAGE)?,
        })
    }

    /// Finds the executable of a diagnostic of MetricKit, which names no process: the image that the dynamic linker has called at
    /// the beginning of the main thread. Returns None if an address of the report is made up, or if threads disagree.
    fn find_executable(&self, images: &[Image<'_>]) -> Option<(DebugId, u64)> {
        if !self.parts.get(self.main_part())?.is_metric_kit() {
            return None;
        }
        let mut found = None;
        for backtrace in self.backtraces.iter().filter(|backtrace| backtrace.part == self.main_part()) {
            if backtrace.frames.iter().any(|frame| matches!(frame.instruction_addr, Some(Number::Float(_)))) {
                return None;
            }
            let mut outermost = backtrace.frames.iter().rev().skip_while(|frame| frame.object_name.is_none());
            if outermost.next().is_none_or(|frame| !is_linker(frame)) {
                continue;
            }
            let Some(main) = outermost.find(|frame| !is_linker(frame)) else { continue };
            let name = main.object_name.map(|name| name.decode().into_owned()).unwrap_or_default();
            if is_system_file_name(&name) || is_framework_name(&name) {
                continue;
            }
            let image = images.iter().find(|image| image.uuid.is_some() && image.uuid == main.object_uuid)?;
            let executable = (image.uuid?, image.addr?.to_bits()?);
            if *found.get_or_insert(executable) != executable {
                return None;
            }
        }
        found
    }
}

/// Returns true for code of the dynamic linker, which starts an executable.
fn is_linker(frame: &Frame<'_>) -> bool {
    frame.object_name.is_some_and(|name| matches!(name.decode().as_ref(), "dyld" | "libdyld.dylib"))
}

/// Returns the debug id and the address of the image with this file name.
fn find_image(images: &[Image<'_>], name: &str) -> Option<(DebugId, u64)> {
    let is_named = |image: &&Image<'_>| {
        image.name.is_some_and(|path| path.decode().rsplit('/').next().is_some_and(|file| file == name))
    };
    let image = images.iter().find(is_named)?;
    Some((image.uuid?, image.addr?.to_bits()?))
}

#[cfg(test)]
mod tests {
    use crate::{ReadLimits, Report};

    #[test]
    fn facts_of_a_process_are_those_of_the_main_crash() {
        let facts = |json: &str| {
            let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
            (report.process_id(), report.thread_count(), report.duration_nanos())
        };
        let crash = r#"{"system":{"process_id":41},"crash":{"error":{"type":"mach"},"threads":[{"index":0},{"index":1}]}}"#;
        assert_eq!(facts(crash), (Some(41), Some(2), None));
        // A crash of the handler: the report of the crash is inside.
        let recrash = format!(
            r#"{{"report":{{"type":"minimal"}},"crash":{{"error":{{"type":"signal"}},"threads":[{{"index":9}}]}},"recrash_report":{crash}}}"#
        );
        assert_eq!(facts(&recrash), (Some(41), Some(2), None));
        let profile = r#"{"crash":{"error":{"type":"profile","profile":{"duration":262253917,"samples":[]}},"threads":[]}}"#;
        assert_eq!(facts(profile), (None, Some(0), Some(262_253_917)));
        let hang = r#"{"version":"1.0.0","callStackTree":{"callStacks":[]},"diagnosticMetaData":{"pid":77,"hangDuration":"20 sec"}}"#;
        assert_eq!(facts(hang).0, Some(77));
        assert_eq!(facts(hang).2, Some(20_000_000_000));
        assert_eq!(facts("{}"), (None, None, None));
    }
}
