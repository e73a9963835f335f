//! Summaries of reports for lists.

pub(crate) mod facts;
mod terms;
mod timestamp;

use crate::Text;
use crate::device_name::is_a_name;
use crate::jetsam::JetsamEvent;
use crate::json::Value;
use crate::report::memory::{MemoryEvent, MemoryEventKind};
use crate::report::ours::OurCall;
use crate::report::{Backtrace, Report};
use facts::PartFacts;
use time::OffsetDateTime;
pub(crate) use timestamp::device_time;
use unslide_model::{DebugId, ReportId};

/// The smallest valid sampling share.
const LEAST_SAMPLED: f64 = 0.001;
/// The maximum number of frames in a summary, including inlined functions.
const TOP_FRAMES: usize = 10;

/// The main facts of a report, copied out of it. It describes the main crash ([`Report::main_part`]).
/// Facts about the app and the device that this part lacks are taken from the other parts. Every text
/// comes from the device and is not verified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportSummary {
    /// The report's id.
    pub report_id: Option<ReportId>,
    /// `CFBundleIdentifier`.
    pub app: Option<String>,
    /// `CFBundleName`.
    pub app_name: Option<String>,
    /// `CFBundleShortVersionString`: the marketing version.
    pub version: Option<String>,
    /// `CFBundleVersion`: the build.
    pub build: Option<String>,
    /// `report.type`: `standard`, `minimal` or `custom`.
    pub report_type: Option<String>,
    /// `report.monitor_id`.
    pub monitor_id: Option<String>,
    /// `report.run_id`: identifies the launch of the process.
    pub run_id: Option<String>,
    /// The time of the event, by the device's clock.
    pub timestamp: Option<OffsetDateTime>,
    /// `iOS`, `macOS`, …
    pub os_name: Option<String>,
    /// The system's version, such as `17.0.1`.
    pub os_version: Option<String>,
    /// The system's build, such as `21A340`.
    pub os_build: Option<String>,
    /// `machine`, such as `iPhone15,2`.
    pub device_model: Option<String>,
    /// `device_app_hash`: identifies one device with the apps of one vendor.
    pub device_hash: Option<String>,
    /// `cpu_arch` of the hardware.
    pub cpu_arch: Option<String>,
    /// The process's name.
    pub process_name: Option<String>,
    /// `crash.error.type`, or the [kind](MemoryEventKind) of a report about memory.
    pub error_type: Option<String>,
    /// The name of the Objective-C, C++ or reported exception, or else of the Mach exception.
    pub exception: Option<String>,
    /// The signal's name, such as `SIGABRT`.
    pub signal: Option<String>,
    /// The Mach exception's code, such as `KERN_INVALID_ADDRESS`.
    pub code: Option<String>,
    /// The exception's message, or the system's reason for ending the process, or an image's message about it.
    pub reason: Option<String>,
    /// The duration of the hang or of sampling, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The app's memory limit in bytes, according to the device.
    pub memory_limit: Option<u64>,
    /// `report.sampled`: the share of such reports that is sent, 0.001 to 1. `None` for any other value.
    pub sampled: Option<f64>,
    /// `crash.error.is_fatal`, if the version writes it. False for a memory warning.
    pub fatal: Option<bool>,
    /// `index` of the crashed thread.
    pub crashed_thread: Option<u64>,
    /// The thread's name, or else its queue's label.
    pub thread_name: Option<String>,
    /// The innermost functions of [`Report::crashed_backtrace`], at most ten.
    pub top_frames: Vec<TopFrame>,
}

/// One function of the crashed backtrace: from us if the report was enriched, or else from the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopFrame {
    /// The image's file name.
    pub image: Option<String>,
    /// The image's debug id.
    pub debug_id: Option<DebugId>,
    /// The function, or `None` if it is not known.
    pub function: Option<String>,
    /// The path of the source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

/// The app's bundle identifier in `system`, and in the facts of a diagnostic.
const APP_KEY: &str = "CFBundleIdentifier";
pub(crate) const DIAGNOSTIC_APP_KEY: &str = "bundleIdentifier";

/// Members of `system` in the summary, in the order in which the code below destructures them.
const SYSTEM_KEYS: [&str; 11] = [
    APP_KEY,
    "CFBundleName",
    "CFBundleShortVersionString",
    "CFBundleVersion",
    "system_name",
    "system_version",
    "os_version",
    "machine",
    "device_app_hash",
    "cpu_arch",
    "process_name",
];

/// Returns the sampling share if it is valid.
fn read_sampling_share(value: Value<'_>) -> Option<f64> {
    let share = value.as_decimal()?;
    (LEAST_SAMPLED..=1.0).contains(&share).then_some(share)
}

impl Report<'_> {
    /// Returns the summary of this report.
    #[must_use]
    pub fn summary(&self) -> ReportSummary {
        let summary = self.crash_summary();
        match self.diagnostic() {
            Some(kind) => self.diagnostic_summary(kind, summary),
            None => summary,
        }
    }

    /// Returns the app of the [summary](Report::summary), without the rest of it.
    #[must_use]
    pub fn app(&self) -> Option<String> {
        if let Some(metadata) = self.diagnostic().and_then(|_| self.metadata()) {
            return metadata.get(DIAGNOSTIC_APP_KEY).and_then(Value::decode_string);
        }
        let [app] = PartFacts::for_part(self, self.main_part()).system_members([APP_KEY]);
        let process = || self.jetsam_process().map(|process| process.name.clone());
        app.and_then(Value::decode_string).or_else(|| process().filter(|name| !name.is_empty()))
    }

    fn crash_summary(&self) -> ReportSummary {
        let facts = PartFacts::for_part(self, self.main_part());
        let [app, app_name, version, build, os_name, os_version, os_build, machine, hash, arch, process] =
            facts.system_members(SYSTEM_KEYS).map(|value| value.and_then(Value::decode_string));
        let header = |key| facts.report_member(key).and_then(Value::decode_string);
        let error = self.crash_error().clone();
        let memory = self.memory_event();
        let event_kind = memory.map(|event| event.kind);
        let thread = facts.crashed_thread();
        let of_thread = |key| thread.and_then(|thread| thread.get(key));
        let summary = ReportSummary {
            report_id: Some(self.id),
            app,
            app_name,
            version,
            build,
            report_type: header("type"),
            monitor_id: header("monitor_id"),
            run_id: header("run_id"),
            timestamp: facts.report_member("timestamp").and_then(device_time),
            os_name,
            os_version,
            os_build,
            device_model: machine,
            device_hash: hash,
            cpu_arch: arch,
            process_name: header("process_name").or(process),
            error_type: event_kind.map(|kind| kind.as_str().to_owned()).or(error.kind),
            exception: error.exception,
            signal: error.signal,
            code: error.code,
            reason: error
                .reason
                .or(error.termination)
                .or(error.message)
                .or_else(|| memory.and_then(MemoryEvent::describe_reason)),
            duration_ms: self.duration_millis(),
            memory_limit: self.memory_limit(),
            sampled: facts.report_member("sampled").and_then(read_sampling_share),
            fatal: facts
                .error_member(&["is_fatal"])
                .and_then(Value::as_boolean)
                .or((event_kind == Some(MemoryEventKind::Warning)).then_some(false)),
            crashed_thread: of_thread("index").and_then(Value::as_unsigned),
            thread_name: of_thread("name")
                .and_then(Value::decode_string)
                .or_else(|| of_thread("dispatch_queue").and_then(Value::decode_string)),
            top_frames: self
                .javascript_top_frames()
                .unwrap_or_else(|| self.crashed_backtrace().map(|b| self.top_frames(b)).unwrap_or_default()),
        };
        match &self.jetsam {
            Some(event) => self.complete_summary(summary, event),
            None => summary,
        }
    }

    /// Adds facts of a Jetsam event about the app and the device, if the sender added nothing better. A kernel knows no
    /// bundle identifiers, so the process's name is used for the app.
    fn complete_summary(&self, summary: ReportSummary, event: &JetsamEvent) -> ReportSummary {
        let [os_name, os_version, os_build] = event.system_parts();
        let process = self.jetsam_process();
        let name = process.map(|process| process.name.clone()).filter(|name| !name.is_empty());
        ReportSummary {
            app: summary.app.or_else(|| name.clone()),
            process_name: summary.process_name.or(name),
            os_name: summary.os_name.or(os_name),
            os_version: summary.os_version.or(os_version),
            os_build: summary.os_build.or(os_build),
            device_model: summary.device_model.or_else(|| event.product.clone()),
            device_hash: summary.device_hash.or_else(|| event.device.clone()),
            timestamp: summary.timestamp.or(event.time),
            ..summary
        }
    }

    /// Returns the frames of a JavaScript error, or `None` for a report about another error.
    fn javascript_top_frames(&self) -> Option<Vec<TopFrame>> {
        let frames = self.ours.as_ref().map(|ours| &ours.javascript).filter(|frames| !frames.is_empty())?;
        let calls = frames.iter().filter(|frame| !frame.is_component);
        let top = calls.take(TOP_FRAMES).map(|frame| TopFrame {
            image: frame.bundle.clone(),
            debug_id: frame.debug_id,
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
        });
        Some(top.collect())
    }

    fn top_frames(&self, backtrace: &Backtrace<'_>) -> Vec<TopFrame> {
        let mut top = Vec::new();
        for frame in backtrace.frames.iter().take(TOP_FRAMES) {
            let ours = self.our_frame(frame).unwrap_or_default();
            let debug_id = ours.debug_id.or(frame.object_uuid);
            let image = self
                .image_name(backtrace.part, ours.debug_id)
                .or_else(|| frame.object_name.map(to_owned_text));
            let known = top.len();
            if let Some(calls) = ours.calls {
                calls.each_item(|call| {
                    if top.len() == TOP_FRAMES {
                        return;
                    }
                    let call = OurCall::from_value(call);
                    top.push(TopFrame {
                        image: image.clone(),
                        debug_id,
                        function: Some(call.function.map(to_owned_text).unwrap_or_default()),
                        file: call.file.map(to_owned_text),
                        line: call.line.and_then(|line| u32::try_from(line).ok()),
                    });
                });
            }
            if top.len() == TOP_FRAMES {
                break;
            }
            if top.len() == known {
                let function = frame.symbol_name.filter(|name| is_a_name(*name)).map(to_owned_text);
                top.push(TopFrame { image, debug_id, function, ..TopFrame::default() });
            }
        }
        top
    }

    /// Returns the file name of the image with this debug id, from the list that a part's frames refer to.
    fn image_name(&self, part: usize, debug_id: Option<DebugId>) -> Option<String> {
        let debug_id = debug_id?;
        let images = &self.parts.get(self.parts.get(part)?.image_source?)?.images;
        let name = images.iter().find(|image| image.uuid == Some(debug_id))?.name?.decode();
        Some(name.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

fn to_owned_text(text: Text<'_>) -> String {
    text.decode().into_owned()
}
