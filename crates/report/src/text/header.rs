//! The lines about the process and its end.

use super::crash::Crash;
use super::log::Log;
use super::{escape_line, format_raw, format_string, format_value, read_address};
use crate::json::Value;
use crate::report::crash_error::image_message;
use crate::report::summary::device_time;
use crate::report::summary::facts::PartFacts;
use std::borrow::Cow;
use std::fmt::Write;
use time::macros::format_description;
use unslide_model::ended::EndedRun;

pub(super) fn write_header(facts: &PartFacts<'_, '_>, ended: Option<&EndedRun>, out: &mut Log) {
    let [hash, machine, process, id, path, app, version, build, arch, parent, system, release, os_build] =
        facts.system_members([
            "device_app_hash",
            "machine",
            "process_name",
            "process_id",
            "CFBundleExecutablePath",
            "CFBundleIdentifier",
            "CFBundleShortVersionString",
            "CFBundleVersion",
            "cpu_arch",
            "parent_process_id",
            "system_name",
            "system_version",
            "os_version",
        ]);
    let arch = format_string(arch).unwrap_or_default();
    let format = format_description!(
        "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3] [offset_hour sign:mandatory][offset_minute]"
    );
    let time =
        facts.report_member("timestamp").and_then(device_time).and_then(|time| time.format(&format).ok());
    let process = format_value(process.or_else(|| facts.report_member("process_name")));
    let lines = [
        ("Incident Identifier", facts.report.id.to_string().to_uppercase().into()),
        ("CrashReporter Key", format_value(hash)),
        ("Hardware Model", format_value(machine)),
        ("Process", format!("{process} [{}]", format_value(id)).into()),
        ("Path", format_value(path)),
        ("Identifier", format_value(app)),
        ("Version", format!("{} ({})", format_value(version), format_value(build)).into()),
        ("Code Type", code_type(&arch, true).into()),
        ("Role", "Foreground".into()),
        ("Parent Process", format!("launchd [{}]", format_value(parent)).into()),
        ("", Cow::default()),
        ("Date/Time", time.map_or("(null)".into(), Cow::from)),
        (
            "OS Version",
            format!("{} {} ({})", format_value(system), format_value(release), format_value(os_build)).into(),
        ),
        ("Report Version", "104".into()),
    ];
    let in_background = ended.is_some_and(|ended| ended.foreground == Some(false));
    for (name, value) in lines {
        if name == "Role" && in_background {
            continue;
        }
        if name.is_empty() {
            out.push('\n');
        } else {
            let _ = writeln!(out, "{:<20} {value}", format!("{name}:"));
        }
    }
}

/// Returns Apple's name for the CPU family. The header has a longer name for arm64e.
pub(super) fn code_type(arch: &str, in_header: bool) -> &'static str {
    match arch {
        arch if in_header && arch.starts_with("arm64e") => "ARM-64 (Native)",
        arch if arch.starts_with("arm64") => "ARM-64",
        arch if arch.starts_with("arm") => "ARM",
        "x86" | "i386" => "X86",
        "x86_64" | "x86_64h" => "X86_64",
        _ => "Unknown",
    }
}

pub(super) fn write_exception(facts: &PartFacts<'_, '_>, crash: &Crash<'_>, out: &mut Log) {
    let [mach, signal, at, kind, reason, nsexception, user_reported, cpp_exception] = facts.error_members([
        "mach",
        "signal",
        "address",
        "type",
        "reason",
        "nsexception",
        "user_reported",
        "cpp_exception",
    ]);
    let mach = Mach::from_value(mach);
    let name = mach.exception_name.clone().unwrap_or("0".into());
    let code = mach.code_name.clone().unwrap_or("0x00000000".into());
    let signal = signal.map(|signal| signal.find_members(["name", "signal"]));
    let signal =
        format_value(signal.and_then(|[name, number]| name.filter(|name| !name.is_null()).or(number)));
    let at = read_address(at).unwrap_or(0);
    let _ = write!(out, "\nException Type:  {name} ({signal})\nException Codes: {code} at {at:#018x}\n");
    if let Some(resource) = mach.describe_resource() {
        let _ = writeln!(out, "Exception Subtype: {resource}");
    }
    if crash.has_crashed {
        let _ = writeln!(out, "Triggered by Thread:  {}", crash.subject.as_ref().map_or(0, |t| t.number));
    }
    let section = |value: Option<Value<'_>>| value.filter(|value| value.is_object()).is_some();
    if section(nsexception) {
        let own = nsexception.and_then(|exception| exception.get("reason"));
        write_uncaught_exception(nsexception, reason.or(own), out);
    } else if let Some(exception) = find_zombie(facts, crash, &mach) {
        write_uncaught_exception(Some(exception), exception.get("reason"), out);
        out.push_str(
            "NOTE: This exception has been deallocated! Stack trace is crash from attempting to access \
             this zombie exception.\n",
        );
    } else if section(user_reported) {
        write_uncaught_exception(user_reported, reason, out);
        custom_backtrace(user_reported, out);
    } else if section(cpp_exception) {
        write_uncaught_exception(cpp_exception, reason, out);
    } else if let Some(message) = image_message(facts) {
        let _ = write!(out, "\nApplication Specific Information:\n{}\n", escape_line(&message));
    }
    if kind.and_then(Value::as_text).is_some_and(|kind| kind.is("deadlock")) {
        out.push_str("\nApplication main thread deadlocked\n");
    }
}

/// `crash.error.mach`.
#[derive(Default)]
struct Mach<'a> {
    exception: Option<u64>,
    exception_name: Option<Cow<'a, str>>,
    code: Option<u64>,
    code_name: Option<Cow<'a, str>>,
    subcode: Option<u64>,
}

impl<'a> Mach<'a> {
    fn from_value(value: Option<Value<'a>>) -> Mach<'a> {
        let Some(value) = value else { return Mach::default() };
        let [exception, exception_name, code, code_name, subcode] =
            value.find_members(["exception", "exception_name", "code", "code_name", "subcode"]);
        Mach {
            exception: exception.and_then(Value::as_unsigned),
            exception_name: format_string(exception_name),
            code: code.and_then(Value::as_unsigned),
            code_name: format_string(code_name),
            subcode: subcode.and_then(Value::as_unsigned),
        }
    }

    /// Describes an `EXC_RESOURCE` for CPU use over a limit. The code holds the resource (bits 61–63), the period in
    /// seconds (bits 7–31) and the limit in percent (bits 0–6). The subcode holds the observed value. Source:
    /// `<kern/exc_resource.h>`.
    fn describe_resource(&self) -> Option<String> {
        let code = self.code.filter(|code| self.exception == Some(11) && code >> 61 == 1)?;
        let (limit, seconds) = (code & 0x7f, code >> 7 & 0x1ff_ffff);
        let seen = self.subcode.unwrap_or(0) & 0x7f;
        Some(format!("CPU_MONITOR\nLimit: {limit}%, observed: {seen}% over {seconds} seconds"))
    }
}

fn write_uncaught_exception(exception: Option<Value<'_>>, reason: Option<Value<'_>>, out: &mut Log) {
    let (name, reason) =
        (format_value(exception.and_then(|exception| exception.get("name"))), format_value(reason));
    let _ = write!(
        out,
        "\nApplication Specific Information:\n*** Terminating app due to uncaught exception '{name}', reason: '{reason}'\n"
    );
}

fn custom_backtrace(user: Option<Value<'_>>, out: &mut Log) {
    let [line, entries] = user.map_or([None; 2], |user| user.find_members(["line_of_code", "backtrace"]));
    let line = format_string(line);
    let entries = entries.map(Value::items).unwrap_or_default();
    if line.is_none() && entries.is_empty() {
        return;
    }
    out.push_str("\nCustom Backtrace:\n");
    if let Some(line) = line {
        let _ = writeln!(out, "Line: {line}");
    }
    for entry in entries {
        if out.is_full() {
            return;
        }
        let text = format_string(Some(entry)).unwrap_or_else(|| format_raw(entry).into());
        let _ = writeln!(out, "{text}");
    }
    out.push('\n');
}

/// Returns the deallocated exception if the crash was an access to it: a bad access with the exception's
/// address in a register.
fn find_zombie<'a>(facts: &PartFacts<'_, 'a>, crash: &Crash<'_>, mach: &Mach<'_>) -> Option<Value<'a>> {
    if mach.exception_name.as_deref() != Some("EXC_BAD_ACCESS")
        || mach.code_name.as_deref() != Some("KERN_INVALID_ADDRESS")
    {
        return None;
    }
    let exception = facts.deallocated_exception()?;
    let wanted = read_address(exception.get("address"))?;
    let mut found = false;
    crash.subject.as_ref()?.registers?.each_member(|_, value| {
        found |= read_address(Some(value)) == Some(wanted);
    });
    found.then_some(exception)
}
